// Flows of stateful rules and of address translation: types, reads, and sums.
import { number } from "./figures";
import { get } from "./protocols";
import { call } from "./server";
import type { Limit } from "./yang";

/** Rows that the router is asked for. */
export const ROWS = 100;

export interface Flow {
  protocol: number;
  "source-address": string;
  "source-port"?: number;
  "destination-address": string;
  "destination-port"?: number;
  "translated-source-address"?: string;
  "translated-source-port"?: number;
  "translated-destination-address"?: string;
  "translated-destination-port"?: number;
  vrf?: string;
  state: string;
  suspended?: boolean;
  packets?: string;
  octets?: string;
  "reply-packets"?: string;
  "reply-octets"?: string;
  age?: number;
  idle?: number;
  timeout?: number;
  acl?: string;
  ace?: string;
}

/** What to search for; "": anything. */
export interface Search {
  prefix: string;
  port: string;
  protocol: string;
  vrf: string;
  state: string;
  order: "octets" | "rate";
}

export interface Found {
  flow?: Flow[];
  matching?: string;
}

/** The input of `find-flows`. */
export function inputOf(search: Search): Record<string, unknown> {
  return {
    ...(search.prefix && { prefix: search.prefix }),
    ...(search.port && { port: Number(search.port) }),
    ...(search.protocol && { protocol: search.protocol }),
    ...(search.vrf && { vrf: search.vrf }),
    ...(search.state && { state: [search.state] }),
    order: search.order,
    limit: ROWS,
  };
}

/** The first flows of a search: at most [`ROWS`], whatever the number of all. */
export const findFlows = (search: Search): Promise<Found> => call<Found>("stoa-acl:find-flows", inputOf(search));

export interface FlowFamily {
  name: "ipv4" | "ipv6";
  "active-flows"?: string;
  capacity?: string;
  "created-flows"?: string;
  "expired-flows"?: string;
  "evicted-flows"?: string;
  "refused-packets"?: string;
  "source-limited-packets"?: string;
  state?: { name: string; "active-flows"?: string; "suspended-flows"?: string }[];
}

/** How many flows there are. */
export async function flowCounts(signal: AbortSignal): Promise<FlowFamily[]> {
  const path = "ietf-access-control-list:acls/stoa-acl:flows";
  return (await get<{ family?: FlowFamily[] }>(path, "stoa-acl:flows", signal))?.family ?? [];
}

/** The tables of flows: what each has of its limit. Translated flows have a table of their own. */
export const TABLES: [string, string][] = [
  ["ipv4-flows", "IPv4 without NAT"],
  ["ipv6-flows", "IPv6"],
  ["nat-flows", "Translated by NAT"],
];

/** The limits of the tables, by name. */
export async function flowLimits(signal: AbortSignal): Promise<Map<string, Limit>> {
  const found = await get<{ limit?: Limit[] }>("stoa-forwarder:forwarder/limits", "stoa-forwarder:limits", signal);
  const of = (found?.limit ?? []).filter((limit) => TABLES.some(([name]) => name === limit.name));
  return new Map(of.map((limit) => [limit.name, limit]));
}

/** The VRFs that are configured. */
export async function vrfNames(signal: AbortSignal): Promise<string[]> {
  const found = await get<{ vrf?: { name: string }[] }>("stoa-vrf:vrfs?content=config", "stoa-vrf:vrfs", signal);
  return (found?.vrf ?? []).map((vrf) => vrf.name);
}

/** The states in the order of a connection: those of crates/api/src/flow.rs, as a test checks. */
export const STATES = [
  "tcp-opening",
  "tcp-established",
  "tcp-half-closed",
  "tcp-closing",
  "tcp-time-wait",
  "tcp-reset",
  "udp-new",
  "udp-replied",
  "icmp",
  "other-new",
  "other-replied",
];

/** Flows by state, of both families together; the last one is "suspended", if there are some. */
export function byState(families: FlowFamily[]): [string, number][] {
  const sums = new Map<string, number>();
  let suspended = 0;
  for (const state of families.flatMap((family) => family.state ?? [])) {
    sums.set(state.name, (sums.get(state.name) ?? 0) + number(state["active-flows"]));
    suspended += number(state["suspended-flows"]);
  }
  const known = STATES.filter((name) => (sums.get(name) ?? 0) > 0).map((name): [string, number] => [name, sums.get(name) ?? 0]);
  return suspended > 0 ? [...known, ["suspended", suspended]] : known;
}

/** A sum of all families. */
export const sumOf = (families: FlowFamily[], leaf: "refused-packets" | "source-limited-packets" | "evicted-flows"): number =>
  families.reduce((sum, family) => sum + number(family[leaf]), 0);

/** What tells a flow from all others. */
export const flowKey = (it: Flow): string =>
  [it.protocol, it["source-address"], it["source-port"], it["destination-address"], it["destination-port"], it.vrf].join(" ");

/** Octets of both directions. */
export const octets = (it: Flow): number => number(it.octets) + number(it["reply-octets"]);

export const packets = (it: Flow): number => number(it.packets) + number(it["reply-packets"]);

/** The counters of flows, for rates. */
export function countersOf(flows: Flow[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const flow of flows) {
    found.set(`${flowKey(flow)} bits`, 8 * octets(flow));
    found.set(`${flowKey(flow)} packets`, packets(flow));
  }
  return found;
}

/** Protocols that have ports. */
const WITH_PORTS = new Set([6, 17, 33, 132, 136]);

/** An address with its port, if the protocol has some. */
export function end(address: string, port: number | undefined, protocol: number): string {
  if (port === undefined || !WITH_PORTS.has(protocol)) return address;
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** An end as the first packet has it, and what it is behind the router, if that is something else. */
export function ends(flow: Flow, which: "source" | "destination"): { shown: string; behind: string } {
  const shown = end(flow[`${which}-address`], flow[`${which}-port`], flow.protocol);
  const translated = flow[`translated-${which}-address`];
  const behind = translated === undefined ? "" : end(translated, flow[`translated-${which}-port`], flow.protocol);
  return { shown, behind: behind === shown ? "" : behind };
}

export interface Talker {
  address: string;
  octets: number;
  /** Bits per second now; undefined: not known yet. */
  rate: number | undefined;
  flows: number;
}

/** Hosts that flows begin or end at, with their sums. Those with the most octets, or the highest rate, first. */
export function talkers(flows: Flow[], which: "source" | "destination", rates: Map<string, number>, isByRate: boolean): Talker[] {
  const found = new Map<string, Talker>();
  for (const flow of flows) {
    const address = flow[`${which}-address`];
    const rate = rates.get(`${flowKey(flow)} bits`);
    const old = found.get(address) ?? { address, octets: 0, rate: undefined, flows: 0 };
    const sum = rate === undefined ? old.rate : (old.rate ?? 0) + rate;
    found.set(address, { address, octets: old.octets + octets(flow), rate: sum, flows: old.flows + 1 });
  }
  const key = (it: Talker): number => (isByRate ? (it.rate ?? 0) : it.octets);
  return [...found.values()].sort((a, b) => key(b) - key(a) || b.octets - a.octets || a.address.localeCompare(b.address));
}
