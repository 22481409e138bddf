// An observable value.
import { useEffect, useState } from "preact/hooks";

export class Cell<T> {
  private listeners = new Set<() => void>();
  constructor(private held: T) {}

  get value(): T {
    return this.held;
  }

  set(value: T): void {
    if (value !== this.held) {
      this.held = value;
      for (const listener of [...this.listeners]) listener();
    }
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The value of a cell; the component renders again when it changes. */
export function useCell<T>(cell: Cell<T>): T {
  const [value, setValue] = useState(cell.value);
  useEffect(() => {
    setValue(() => cell.value);
    return cell.listen(() => setValue(() => cell.value));
  }, [cell]);
  return value;
}
