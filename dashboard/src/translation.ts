// Address translation: types, reads, and words.
import { withoutModule } from "./data_path";
import { count, counted, number } from "./figures";
import { get } from "./protocols";
import { call } from "./server";

/** Rows of each list that the router is asked for. */
export const ROWS = 100;

export interface Policy {
  id: number;
  "external-realm"?: { "external-interface"?: string };
  "subscriber-match"?: { subnet: string }[];
  "external-ip-address-pool"?: { "external-ip-pool"?: string }[];
  "port-set-restrict"?: { "start-port-number"?: number; "end-port-number"?: number };
  "mapping-type"?: string;
  "filtering-type"?: string;
  "nat64-prefixes"?: { "nat64-prefix": string }[];
  "nptv6-prefixes"?: { "internal-ipv6-prefix": string; "external-ipv6-prefix": string }[];
  "port-allocation-type"?: string;
  "port-set"?: { "port-set-size"?: number; "stoa-nat:deterministic"?: boolean };
  "port-quota"?: { "quota-type": number; "port-limit"?: number }[];
  "stoa-nat:port-control"?: { interface?: string[] };
  "stoa-nat:statistics"?: Record<string, string>;
}

export interface Instance {
  id: number;
  name?: string;
  type?: string;
  enable?: boolean;
  policy?: Policy[];
  statistics?: {
    "traffic-statistics"?: Record<string, string>;
    "mappings-statistics"?: { "total-address-mappings"?: number };
    "pools-stats"?: { "addresses-allocated"?: number; "addresses-free"?: number };
  };
}

export interface Nat {
  instances?: { instance?: Instance[] };
  "stoa-nat:port-control"?: { "active-leases"?: string; answer?: { protocol: string; result: string; answers: string }[] };
}

export interface Lease {
  kind: string;
  remaining?: number;
  peer?: { prefix: string; port?: number }[];
}

export interface Mapping {
  protocol: number;
  "external-vrf"?: string;
  "external-address": string;
  "external-port": number;
  "internal-vrf"?: string;
  "internal-address": string;
  "internal-port": number;
  instance: number;
  policy: number;
  "active-flows"?: string;
  age?: number;
  lease?: Lease[];
}

export interface StaticMapping {
  instance: number;
  index: number;
  protocol?: number;
  "external-vrf"?: string;
  external?: string;
  "external-ports"?: string;
  "internal-vrf"?: string;
  internal?: string;
  "internal-ports"?: string;
  "active-flows"?: string;
  backend?: { address: string; port?: number; weight?: number; "active-flows"?: string }[];
}

export interface Subscriber {
  prefix: string;
  vrf?: string;
  instance: number;
  policy: number;
  "port-set-limit"?: number;
  "port-limit"?: number;
  fullness?: number;
  ports?: { protocol: string; used: number; limit: number }[];
  "port-set"?: { "external-address": string; "first-port": number; "last-port": number }[];
}

/** What is in use. */
export interface Translations {
  "active-flows"?: string;
  "flow-limit"?: string;
  "active-mappings"?: string;
  "mapping-limit"?: string;
  "active-leases"?: string;
  "lease-limit"?: string;
  "used-addresses"?: string;
  "external-address"?: { vrf?: string; address: string; "active-flows"?: string; "active-mappings"?: string }[];
  "matching-static-mappings"?: string;
  "static-mapping"?: StaticMapping[];
  "matching-mappings"?: string;
  mapping?: Mapping[];
  "matching-subscribers"?: string;
  subscriber?: Subscriber[];
}

/** Leaves and lists of a policy; its explicit mappings of SIIT may be many. */
const OF_POLICY = [
  "id",
  "external-realm",
  "subscriber-match",
  "external-ip-address-pool",
  "port-set-restrict",
  "mapping-type",
  "filtering-type",
  "nat64-prefixes",
  "nptv6-prefixes",
  "port-allocation-type",
  "port-set",
  "port-quota",
  "stoa-nat:port-control",
  "stoa-nat:statistics",
].join(";");

/** Instances and policies with their counters, without tables of mappings, which may be long. */
export async function nat(signal: AbortSignal): Promise<Nat> {
  const fields = encodeURIComponent(`instances/instance(id;name;type;enable;policy(${OF_POLICY});statistics);stoa-nat:port-control`);
  return (await get<Nat>(`ietf-nat:nat?fields=${fields}`, "ietf-nat:nat", signal)) ?? {};
}

/** What is in use: at most [`ROWS`] entries of each list. */
export const findTranslations = (prefix: string, isLeased: boolean): Promise<Translations> =>
  call<Translations>("stoa-nat:find-translations", { limit: ROWS, ...(prefix && { prefix }), ...(isLeased && { leased: true }) });

/** The kind of an instance, as the guide names it. */
export function kindOf(instance: Instance): string {
  const names: Record<string, string> = { "basic-nat44": "NAT44, 1:1", nat64: "NAT64", siit: "SIIT", eam: "SIIT", nptv6: "NPTv6" };
  return names[withoutModule(instance.type ?? "")] ?? "NAT44";
}

/** Whether an instance translates without flows: by prefixes alone. */
export const isStateless = (instance: Instance): boolean => ["SIIT", "NPTv6"].includes(kindOf(instance));

export interface PolicyRow {
  instance: Instance;
  policy: Policy;
}

/** Policies with flows, in their order. */
export const policiesOf = (all: Nat): PolicyRow[] =>
  (all.instances?.instance ?? []).filter((it) => !isStateless(it)).flatMap((instance) => (instance.policy ?? []).map((policy) => ({ instance, policy })));

/** The pools of external addresses of a policy; none: it translates to the address of its interface. */
const poolsOf = ({ policy }: PolicyRow): string[] =>
  (policy["external-ip-address-pool"] ?? []).flatMap((pool) => pool["external-ip-pool"] ?? []);

/** External ports of a policy; without a range the defaults of docs/guide/nat44.md. */
function rangeSize({ policy }: PolicyRow): number {
  const range = policy["port-set-restrict"];
  return (range?.["end-port-number"] ?? 65_535) - (range?.["start-port-number"] ?? 1_024) + 1;
}

const numberOf = (address: string): number => address.split(".").reduce((sum, part) => 256 * sum + Number(part), 0);

/**
 * The ports of an external address, of each protocol: those of the policies whose pools have it. Undefined: not known,
 * as with masquerade. The router reports no policy of an address, so that one in no pool may be of any policy, and
 * policies with different ranges of ports may share a pool.
 */
export function portsAt(all: Nat, address: string): number | undefined {
  const has = (pool: string): boolean => {
    const [network = "", length = "32"] = pool.split("/");
    const size = 2 ** (32 - Number(length));
    return Math.floor(numberOf(network) / size) === Math.floor(numberOf(address) / size);
  };
  const sizes = new Set(policiesOf(all).filter((row) => poolsOf(row).some(has)).map(rangeSize));
  return sizes.size === 1 ? [...sizes][0] : undefined;
}

/** The external addresses of a policy in words. */
export function externalOf(row: PolicyRow): string[] {
  if (withoutModule(row.instance.type ?? "") === "basic-nat44") return ["those of static mappings"];
  const pools = poolsOf(row);
  return pools.length > 0 ? pools : ["the address of the interface"];
}

/** What a policy translates. */
export function subscribersOf({ policy }: PolicyRow): string[] {
  const prefixes = (policy["nat64-prefixes"] ?? []).map((it) => `to ${it["nat64-prefix"]}`);
  const subnets = (policy["subscriber-match"] ?? []).map((it) => it.subnet);
  const found = [...prefixes, ...subnets];
  return found.length > 0 ? found : ["all sources"];
}

/** Settings of a policy beside its addresses. */
export function settingsOf({ policy }: PolicyRow): string[] {
  const mapping = withoutModule(policy["mapping-type"] ?? "eim").toUpperCase();
  const filtering = mapping === "EDM" ? "" : ` / ${withoutModule(policy["filtering-type"] ?? "edf").toUpperCase()}`;
  const protocols: Record<number, string> = { 0: "", 1: " ICMP", 6: " TCP", 17: " UDP" };
  const quotas = (policy["port-quota"] ?? []).map((it) => `quota: ${count(it["port-limit"] ?? 0)}${protocols[it["quota-type"]] ?? ""} ports`);
  const set = policy["port-set"];
  const size = policy["port-allocation-type"]?.endsWith("port-range-allocation") && set?.["port-set-size"];
  return [
    `${mapping}${filtering}`,
    ...(size ? [`${set?.["stoa-nat:deterministic"] ? "deterministic " : ""}port sets of ${count(size)}`] : []),
    ...quotas,
    ...(policy["stoa-nat:port-control"]?.interface?.length ? ["PCP and NAT-PMP"] : []),
  ];
}

const DROPS: [string, string][] = [
  ["no-port-packets", "no free port"],
  ["no-address-packets", "no external address"],
  ["over-quota-packets", "over quota"],
  ["table-full-packets", "table full"],
];

/** Why a policy has dropped packets, with their numbers. */
export const dropsOf = (policy: Policy): [string, number][] =>
  DROPS.map(([leaf, words]): [string, number] => [words, number(policy["stoa-nat:statistics"]?.[leaf])]).filter(([, packets]) => packets > 0);

/** Use of a policy's port sets; undefined: it has none. */
export function portSets(policy: Policy): { used: number; held: number; all: number } | undefined {
  const it = policy["stoa-nat:statistics"];
  if (it?.["port-sets"] === undefined) return undefined;
  return { used: number(it["used-port-sets"]), held: number(it["unused-port-sets"]), all: number(it["port-sets"]) };
}

/** Pools of all instances: addresses in use, and all. */
export function pools(all: Nat): { used: number; all: number } | undefined {
  const stats = (all.instances?.instance ?? []).flatMap((it) => it.statistics?.["pools-stats"] ?? []);
  if (stats.length === 0) return undefined;
  const used = stats.reduce((sum, it) => sum + (it["addresses-allocated"] ?? 0), 0);
  return { used, all: used + stats.reduce((sum, it) => sum + (it["addresses-free"] ?? 0), 0) };
}

/** The port sets of a subscriber: neighbours are one range. */
export function portRanges(subscriber: Subscriber): string[] {
  const found: { address: string; first: number; last: number }[] = [];
  const sets = [...(subscriber["port-set"] ?? [])].sort((a, b) => a["external-address"].localeCompare(b["external-address"]) || a["first-port"] - b["first-port"]);
  for (const set of sets) {
    const before = found[found.length - 1];
    if (before?.address === set["external-address"] && before.last + 1 === set["first-port"]) before.last = set["last-port"];
    else found.push({ address: set["external-address"], first: set["first-port"], last: set["last-port"] });
  }
  return found.map((it) => `${it.address}:${it.first}–${it.last}`);
}

/** A prefix without its length, if it is an address. */
export const host = (prefix: string): string => prefix.replace(/\/32$/, "");

/** An end of a static mapping. */
export const staticEnd = (prefix: string | undefined, ports: string | undefined): string => `${host(prefix ?? "–")}${ports ? `:${ports.replace("-", "–")}` : ""}`;

/** Who may send by a lease. */
export const senders = (lease: Lease): string =>
  (lease.peer ?? []).map((it) => `${host(it.prefix)}${it.port === undefined ? "" : `:${it.port}`}`).join(", ") || "anybody";

/** What instances without flows translate, one row for each. */
export function statelessOf(all: Nat): { instance: Instance; pairs: string[] }[] {
  const stateless = (all.instances?.instance ?? []).filter(isStateless);
  return stateless.map((instance) => {
    const pairs = (instance.policy ?? []).flatMap((policy) => [
      ...(policy["nptv6-prefixes"] ?? []).map((it) => `${it["internal-ipv6-prefix"]} ↔ ${it["external-ipv6-prefix"]}`),
      ...(policy["nat64-prefixes"] ?? []).map((it) => `IPv4 in ${it["nat64-prefix"]}`),
    ]);
    const mappings = kindOf(instance) === "SIIT" ? (instance.statistics?.["mappings-statistics"]?.["total-address-mappings"] ?? 0) : 0;
    return { instance, pairs: mappings > 0 ? [...pairs, counted(mappings, "mapping")] : pairs };
  });
}
