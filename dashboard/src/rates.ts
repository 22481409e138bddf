// Rates from the difference of two samples of counters.

/** A sample of counters by name. */
export interface Sample {
  /** In milliseconds of a monotonic clock. */
  at: number;
  counters: Map<string, number>;
}

/** Samples closer together than this are too inaccurate. */
const SHORTEST_MS = 200;

/**
 * The rate of each counter per second. New or reset counters have no rate, rather than a rate of 0.
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

/** Keeps the last sample and returns rates for each new one. */
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

/** The recent values of a chart, second by second. */
export class Series {
  /** Times in seconds since 1970. */
  readonly times: number[] = [];
  readonly values: (number | null)[][];

  constructor(
    lines: number,
    private readonly most: number,
  ) {
    this.values = Array.from({ length: lines }, () => []);
  }

  /** Adds values at a time. The chart shows a pause of more than `gap` seconds as a gap. */
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
