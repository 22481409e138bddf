// The traffic of the last hour, which the router keeps.
import { useEffect } from "preact/hooks";
import type { Series } from "./rates";
import { call, lostSince, user } from "./server";

/** Names of the rates. */
export const RATES = ["in-packets", "out-packets", "in-bits", "out-bits", "dropped"] as const;
export type Rate = (typeof RATES)[number];
type Written = Partial<Record<Rate, string>>;

interface Output {
  interval?: number;
  age?: number;
  total?: Written;
  interface?: (Written & { name: string })[];
}

/** Rates of equal intervals, oldest first; null: not sampled. */
export type Rates = Record<Rate, (number | null)[]>;

/** The history of what was requested, by the clock of this page. */
export interface History {
  /** Ends of the intervals in seconds since 1970. */
  times: number[];
  total: Rates | undefined;
  interfaces: Map<string, Rates>;
}

const values = (text: string | undefined): (number | null)[] =>
  text === undefined || text === "" ? [] : text.split(" ").map((word) => (word === "-" ? null : Number(word)));

const ratesOf = (written: Written): Rates =>
  Object.fromEntries(RATES.map((name) => [name, values(written[name])])) as Rates;

/** Parses a response at `now`, in seconds since 1970. The clock of the router may differ from that of the page. */
export function parse(output: Output, now: number): History {
  const interval = output.interval ?? 10;
  const end = now - (output.age ?? 0) / 1000;
  const total = output.total && ratesOf(output.total);
  const interfaces = new Map((output.interface ?? []).map((one) => [one.name, ratesOf(one)]));
  const count = (total ?? [...interfaces.values()][0])?.["in-bits"].length ?? 0;
  return { times: Array.from({ length: count }, (_, at) => end - (count - 1 - at) * interval), total, interfaces };
}

/** Interfaces of one request. */
const MOST = 256;

/** Reads the traffic of interfaces, or of all ports together if there is none. */
export async function history(interfaces: string[], resolution = 10): Promise<History> {
  const input = { resolution, ...(interfaces.length > 0 ? { interface: interfaces.slice(0, MOST) } : { total: true }) };
  return parse(await call<Output>("stoa-forwarder:traffic-history", input), Date.now() / 1000);
}

/** Sets the past of two charts: bits, and packets with drops. */
export function seed(bits: Series, packets: Series, times: number[], rates: Rates): void {
  const rows = (names: Rate[]) => times.map((time, at) => ({ time, row: names.map((name) => rates[name][at] ?? null) }));
  bits.seed(rows(["in-bits", "out-bits"]));
  packets.seed(rows(["in-packets", "out-packets", "dropped"]));
}

/** Calls `read` now, whenever the page becomes visible again, and when the router answers again. */
export function useReturns(read: () => Promise<void>, keys: unknown[]): void {
  useEffect(() => {
    let isOver = false;
    const again = (): void => {
      if (isOver || document.visibilityState === "hidden" || lostSince.value > 0 || !user.value) return;
      // Without the right to read it, the chart begins with the page.
      read().catch(() => undefined);
    };
    again();
    const forget = lostSince.listen(again);
    document.addEventListener("visibilitychange", again);
    return () => {
      isOver = true;
      forget();
      document.removeEventListener("visibilitychange", again);
    };
  }, keys);
}
