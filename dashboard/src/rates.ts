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

/** Seconds for which a series keeps single values. Older ones are means of `COARSE_S` seconds. */
export const FINE_S = 130;
/** The interval of older values in seconds, which is that of the samples of the router. */
const COARSE_S = 10;
/** Seconds without a value that are a pause. */
const PAUSE_S = 5;
/** Seconds that a series keeps. */
export const KEPT_S = 3_600;

type Row = (number | null)[];
interface Point {
  /** In seconds since 1970. */
  time: number;
  row: Row;
}

/** The mean of each column; null where there are only gaps. */
function mean(points: Point[]): Row {
  const columns = points[0]?.row.length ?? 0;
  return Array.from({ length: columns }, (_, at) => {
    const known = points.map(({ row }) => row[at]).filter((value): value is number => typeof value === "number");
    return known.length > 0 ? known.reduce((all, value) => all + value, 0) / known.length : null;
  });
}

/** The values of a chart: the last hour from the router, then second by second while the page is open. */
export class Series {
  /** Means of earlier times, oldest first. */
  private old: Point[] = [];
  private fine: Point[] = [];

  constructor(private readonly lines: number) {}

  /** Times in seconds since 1970. */
  get times(): number[] {
    return [...this.old, ...this.fine].map(({ time }) => time);
  }

  /** The values of each line. */
  get values(): Row[] {
    const all = [...this.old, ...this.fine];
    return Array.from({ length: this.lines }, (_, at) => all.map(({ row }) => row[at] ?? null));
  }

  /** The last value of a line. */
  last(line: number): number | null {
    return this.fine[this.fine.length - 1]?.row[line] ?? null;
  }

  /** Adds values at a time. The chart shows a pause of more than `gap` seconds as one. */
  add(time: number, row: Row, gap = PAUSE_S): void {
    const last = this.fine[this.fine.length - 1]?.time;
    if (last !== undefined && time <= last) return;
    if (last !== undefined && time - last > gap) this.fine.push({ time: last + 1, row: row.map(() => null) });
    this.fine.push({ time, row });
    this.thin(time);
  }

  /** Makes means of values that are not recent any more. */
  private thin(now: number): void {
    const bucket = (point: Point | undefined): number => Math.floor((point?.time ?? 0) / COARSE_S);
    for (let first = this.fine[0]; first && (bucket(first) + 1) * COARSE_S < now - FINE_S; first = this.fine[0]) {
      const same = this.fine.findIndex((point) => bucket(point) !== bucket(first));
      const whole = this.fine.splice(0, same < 0 ? this.fine.length : same);
      this.old.push({ time: (bucket(first) + 1) * COARSE_S, row: mean(whole) });
    }
    this.old = this.old.filter(({ time }) => time >= now - KEPT_S - COARSE_S);
  }

  /**
   * Sets what was before the page was open, from the router. After a pause, also what was during the pause: only the
   * values after the last gap stay.
   */
  seed(history: Point[]): void {
    const isAfterPause = (history[history.length - 1]?.time ?? 0) > (this.fine[this.fine.length - 1]?.time ?? 0) + PAUSE_S;
    const gap = this.fine.map(({ row }) => row.every((value) => value === null)).lastIndexOf(true);
    this.fine = isAfterPause ? [] : this.fine.slice(gap + 1);
    const begin = this.fine[0]?.time ?? Number.POSITIVE_INFINITY;
    this.old = history.filter(({ time }) => time < begin);
  }
}
