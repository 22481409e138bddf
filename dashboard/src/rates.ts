// From counters to rates: what two looks at the router differ in.

/** Counters by name at a moment. */
export interface Sample {
  /** In milliseconds, by a clock that nobody sets. */
  at: number;
  counters: Map<string, number>;
}

/** Looks closer together than this say nothing. */
const SHORTEST_MS = 200;

/**
 * How much each counter grew in a second. Counters that are new, or that began again, have no rate: not a rate of 0.
 */
export function rates(before: Sample | undefined, now: Sample): Map<string, number> {
  const found = new Map<string, number>();
  const passed = before ? now.at - before.at : 0;
  if (!before || passed < SHORTEST_MS) return found;
  for (const [name, value] of now.counters) {
    const old = before.counters.get(name);
    if (old !== undefined && value >= old) found.set(name, ((value - old) * 1000) / passed);
  }
  return found;
}

/** Keeps the last look and gives rates with each new one. */
export class Meter {
  private last: Sample | undefined;
  current = new Map<string, number>();

  take(counters: Map<string, number>, at: number): Map<string, number> {
    const sample = { at, counters };
    if (this.last && at - this.last.at < SHORTEST_MS) return this.current;
    this.current = rates(this.last, sample);
    this.last = sample;
    return this.current;
  }
}

/** The last values of some figures, second by second: what a chart shows. */
export class Series {
  /** Moments in seconds since 1970. */
  readonly times: number[] = [];
  readonly values: (number | null)[][];

  constructor(
    lines: number,
    private readonly most: number,
  ) {
    this.values = Array.from({ length: lines }, () => []);
  }

  /** Adds a moment. A pause of more than `gap` seconds is shown as one. */
  add(time: number, figures: (number | null)[], gap = 5): void {
    const last = this.times[this.times.length - 1];
    if (last !== undefined && time <= last) return;
    if (last !== undefined && time - last > gap) this.push(last + 1, this.values.map(() => null));
    this.push(time, figures);
  }

  private push(time: number, figures: (number | null)[]): void {
    this.times.push(time);
    this.values.forEach((line, at) => line.push(figures[at] ?? null));
    while (this.times.length > this.most) {
      this.times.shift();
      for (const line of this.values) line.shift();
    }
  }
}
