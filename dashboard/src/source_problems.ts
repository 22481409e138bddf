// Problems of route sources: routing daemons that are gone, and their routes, which packets still use.
import { count, duration, number } from "./figures";
import type { Protocol } from "./protocols";
import { ask } from "./server";

export type SourceSession = Pick<Protocol, "type" | "name" | "stoa-routing:route-source">;

const PROTOCOLS = "ietf-routing:routing/control-plane-protocols";
const FIELDS = "control-plane-protocol(type;name;stoa-routing:route-source/session)";

/** The sessions of all route sources; none without the right to read them. */
export async function sourceSessions(signal: AbortSignal): Promise<SourceSession[]> {
  try {
    const path = `/restconf/data/${PROTOCOLS}?content=nonconfig&fields=${encodeURIComponent(FIELDS)}`;
    const found = (await ask("GET", path, undefined, signal)) as Record<string, { "control-plane-protocol"?: SourceSession[] }> | undefined;
    return found?.["ietf-routing:control-plane-protocols"]?.["control-plane-protocol"] ?? [];
  } catch (error) {
    // No route source is configured, or it may not be read.
    if ([403, 404].includes((error as { status?: number }).status ?? 0)) return [];
    throw error;
  }
}

/** What is wrong with each route source, in words. */
export function sourceProblems(list: SourceSession[]): { mood: "bad" | "warn"; words: string }[] {
  return list.flatMap((one) => {
    const session = one["stoa-routing:route-source"]?.session;
    if (!session || session["up-since"]) return [];
    const kind = one.type.replace(/^.*:/, "");
    const stale = number(session["stale-routes"]);
    const left = session["stale-time-left"];
    const routes = stale === 0 ? "" : ` ${count(stale)} stale routes are still in use${left === undefined ? "" : ` and are removed in ${duration(left)}`}.`;
    const refusal = session["last-refusal"] && `a connection was refused: ${session["last-refusal"]}`;
    const reasons = [session.reason, refusal].filter(Boolean).join("; ");
    const reason = reasons ? `: ${reasons}` : "";
    const isFirst = session.open !== false && session.state === "awaited";
    return [{ mood: isFirst ? ("warn" as const) : ("bad" as const), words: `No routes arrive from ${one.name} (${kind})${reason}.${routes}` }];
  });
}
