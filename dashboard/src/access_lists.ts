// Access lists and zones: types, reads, and rules in words.
import { withoutModule } from "./data_path";
import { number } from "./figures";
import { PROTOCOLS } from "./policy_rule";
import { get } from "./protocols";

type Ports = { "lower-port"?: number; "upper-port"?: number; operator?: string; port?: number };

interface IpMatch {
  dscp?: number;
  protocol?: number;
  "stoa-acl:protocol-set"?: string;
  [leaf: string]: string | number | undefined;
}

interface PortMatch {
  "source-port"?: Ports;
  "destination-port"?: Ports;
  "stoa-acl:tcp-flags"?: { set?: string; clear?: string };
  [leaf: string]: unknown;
}

export interface Matches {
  ipv4?: IpMatch;
  ipv6?: IpMatch;
  tcp?: PortMatch;
  udp?: PortMatch;
  icmp?: { type?: number; code?: number };
  "ingress-interface"?: string;
  "egress-interface"?: string;
  "stoa-acl:fragment"?: string;
  "stoa-acl:packet-length"?: { lower?: number; upper?: number };
  "stoa-acl:vlan-id"?: number;
}

/** A rule: an access control entry. */
export interface Ace {
  name: string;
  matches?: Matches;
  actions?: {
    forwarding?: string;
    logging?: string;
    "stoa-acl:stateful"?: boolean;
    "stoa-acl:flow-profile"?: string;
    "stoa-acl:alg"?: string;
    "stoa-acl:rate-limit"?: { "packets-per-second"?: number };
  };
  statistics?: { "matched-packets"?: string; "matched-octets"?: string; "stoa-acl:last-hit"?: string };
}

export interface AccessList {
  name: string;
  type?: string;
  aces?: { ace?: Ace[] };
}

type Sets = { "acl-sets"?: { "acl-set"?: { name: string }[] } };
export type Dropped = { "dropped-packets"?: string; "dropped-octets"?: string };

export interface Zone {
  name: string;
  description?: string;
  interface?: string[];
  "syn-cookies"?: { threshold?: number };
  "syn-cookies-state"?: { active?: boolean; "half-open"?: number; sent?: string; accepted?: string };
}

export interface ZonePair extends Sets {
  from: string;
  to: string;
  statistics?: Dropped;
}

export interface AccessLists {
  acl?: AccessList[];
  "attachment-points"?: { interface?: { "interface-id": string; ingress?: Sets; egress?: Sets }[] };
  "stoa-acl:zones"?: { zone?: Zone[] };
  "stoa-acl:zone-pairs"?: { "zone-pair"?: ZonePair[]; unpaired?: Dropped };
  "stoa-acl:unmatched"?: { family: "ipv4" | "ipv6"; acls: string; packets?: string; octets?: string }[];
}

/** Half-open connections from which on a zone sends SYN cookies; the default is that of yang/stoa-acl.yang. */
export const thresholdOf = (zone: Zone): number => zone["syn-cookies"]?.threshold ?? 1_000;

const ACLS = "ietf-access-control-list:acls";

/** All lists with their counters, without the number of flows, which takes longer. */
export async function accessLists(signal: AbortSignal): Promise<AccessLists> {
  const fields = encodeURIComponent("acl;attachment-points;stoa-acl:zones;stoa-acl:zone-pairs;stoa-acl:unmatched");
  return (await get<AccessLists>(`${ACLS}?fields=${fields}`, ACLS, signal)) ?? {};
}

/** The families of the packets that a list is for. */
export function familiesOf(list: AccessList): ("ipv4" | "ipv6")[] {
  const type = withoutModule(list.type ?? "");
  if (/ipv4/.test(type) && /ipv6/.test(type)) return ["ipv4", "ipv6"];
  if (/ipv4/.test(type)) return ["ipv4"];
  return /ipv6/.test(type) ? ["ipv6"] : ["ipv4", "ipv6"];
}

function portsText(ports: Ports | undefined, set: unknown): string | undefined {
  if (typeof set === "string") return `set ${set}`;
  if (!ports) return undefined;
  const { "lower-port": lower, "upper-port": upper, operator, port } = ports;
  if (lower !== undefined) return upper !== undefined && upper !== lower ? `${lower} to ${upper}` : `${lower}`;
  if (port === undefined) return undefined;
  const signs: Record<string, string> = { lte: "at most ", gte: "at least ", neq: "not " };
  return `${signs[operator ?? ""] ?? ""}${port}`;
}

function ofIp(match: IpMatch | undefined, family: 4 | 6, hasUpper: boolean): (string | undefined)[] {
  if (!match) return [];
  const end = (name: string): string | undefined => {
    const set = match[`stoa-acl:${name}-ipv${family}-prefix-list`];
    return set === undefined ? (match[`${name}-ipv${family}-network`] as string | undefined) : `set ${set}`;
  };
  const [source, destination] = [end("source"), end("destination")];
  const set = match["stoa-acl:protocol-set"];
  const protocol = match.protocol === undefined ? undefined : (PROTOCOLS[match.protocol] ?? `protocol ${match.protocol}`);
  const others = [source, destination, protocol, set, match.dscp].some((it) => it !== undefined);
  return [
    others || hasUpper ? undefined : `IPv${family}`,
    source && `from ${source}`,
    destination && `to ${destination}`,
    match.dscp !== undefined ? `DSCP ${match.dscp}` : undefined,
    hasUpper ? undefined : protocol,
    set && `protocols of set ${set}`,
  ];
}

function ofPorts(name: "tcp" | "udp", match: PortMatch | undefined): (string | undefined)[] {
  if (!match) return [];
  const source = portsText(match["source-port"], match[`stoa-acl:source-${name}-port-set`]);
  const destination = portsText(match["destination-port"], match[`stoa-acl:destination-${name}-port-set`]);
  const flags = match["stoa-acl:tcp-flags"];
  return [
    `${name.toUpperCase()}${destination ? ` port ${destination}` : ""}`,
    source && `source port ${source}`,
    flags?.set && `with ${flags.set.toUpperCase()}`,
    flags?.clear && `without ${flags.clear.toUpperCase()}`,
  ];
}

function ofIcmp(match: Matches["icmp"], isIp6: boolean): (string | undefined)[] {
  if (!match) return [];
  const name = isIp6 ? "ICMPv6" : "ICMP";
  const type = match.type === undefined ? "" : ` type ${match.type}`;
  return [`${name}${type}${match.code === undefined ? "" : ` code ${match.code}`}`];
}

/** The conditions of a rule in words. */
export function conditions(ace: Ace): string[] {
  const it = ace.matches ?? {};
  const length = it["stoa-acl:packet-length"];
  const hasUpper = it.tcp !== undefined || it.udp !== undefined || it.icmp !== undefined;
  const found = [
    ...ofIp(it.ipv4, 4, hasUpper),
    ...ofIp(it.ipv6, 6, hasUpper),
    ...ofPorts("tcp", it.tcp),
    ...ofPorts("udp", it.udp),
    ...ofIcmp(it.icmp, it.ipv6 !== undefined),
    it["stoa-acl:fragment"] && (it["stoa-acl:fragment"] === "none" ? "no fragment" : `fragment: ${it["stoa-acl:fragment"]}`),
    length && (length.lower !== undefined || length.upper !== undefined) ? `length ${length.lower ?? 0} to ${length.upper ?? 65535}` : undefined,
    it["ingress-interface"] && `received by ${it["ingress-interface"]}`,
    it["egress-interface"] && `sent by ${it["egress-interface"]}`,
    it["stoa-acl:vlan-id"] !== undefined ? (it["stoa-acl:vlan-id"] === 0 ? "no VLAN" : `VLAN ${it["stoa-acl:vlan-id"]}`) : undefined,
  ].filter((words): words is string => Boolean(words));
  return found.length > 0 ? found : ["all packets"];
}

export type Forwarding = "accept" | "drop" | "reject";

export const forwarding = (ace: Ace): Forwarding => {
  const action = withoutModule(ace.actions?.forwarding ?? "");
  return action === "drop" || action === "reject" ? action : "accept";
};

/** What a rule does besides: "stateful", "at most 100 packets/s". */
export function besides(ace: Ace): string[] {
  const it = ace.actions ?? {};
  const rate = it["stoa-acl:rate-limit"]?.["packets-per-second"];
  return [
    it["stoa-acl:stateful"] && "stateful",
    it["stoa-acl:flow-profile"] && `profile ${it["stoa-acl:flow-profile"]}`,
    it["stoa-acl:alg"] && `ALG ${it["stoa-acl:alg"].toUpperCase()}`,
    rate !== undefined && `at most ${rate} packets/s`,
    it.logging !== undefined && withoutModule(it.logging) !== "log-none" && "logged",
  ].filter((words): words is string => Boolean(words));
}

export const hits = (ace: Ace): number => number(ace.statistics?.["matched-packets"]);

/** The key of a rule in samples of counters. */
export const ruleKey = (list: string, rule: string): string => `${list}\n${rule}`;

/** A place where lists decide about packets. */
export interface Place {
  /** "input", "output", or that of a pair of zones. */
  kind: "input" | "output" | "pair";
  /** The interface, or "inside → outside". */
  name: string;
  lists: string[];
  /** Packets that no rule has matched. */
  packets?: number | undefined;
  octets?: number | undefined;
  /** Of an interface: the family of these packets. */
  family?: "ipv4" | "ipv6";
}

const names = (sets: Sets | undefined): string[] => (sets?.["acl-sets"]?.["acl-set"] ?? []).map((it) => it.name);

/** All places, interfaces first: of an interface and direction, one for each family of its lists. */
export function places(all: AccessLists): Place[] {
  const families = new Map((all.acl ?? []).map((list) => [list.name, familiesOf(list)]));
  const unmatched = new Map((all["stoa-acl:unmatched"] ?? []).map((it) => [`${it.family} ${it.acls}`, it]));
  const found: Place[] = [];
  for (const point of all["attachment-points"]?.interface ?? []) {
    for (const [kind, sets] of [["input", point.ingress], ["output", point.egress]] as const) {
      for (const family of ["ipv4", "ipv6"] as const) {
        const lists = names(sets).filter((name) => families.get(name)?.includes(family));
        if (lists.length === 0) continue;
        const counted = unmatched.get(`${family} ${lists.join(" ")}`);
        const [packets, octets] = [counted?.packets, counted?.octets].map((it) => (it === undefined ? undefined : number(it)));
        found.push({ kind, name: point["interface-id"], lists, family, packets, octets });
      }
    }
  }
  for (const pair of all["stoa-acl:zone-pairs"]?.["zone-pair"] ?? []) {
    const it = pair.statistics;
    const [packets, octets] = [it?.["dropped-packets"], it?.["dropped-octets"]].map((one) => (one === undefined ? undefined : number(one)));
    found.push({ kind: "pair", name: `${pair.from} → ${pair.to}`, lists: names(pair), packets, octets });
  }
  return found;
}

/** Where a list is attached, each place once. */
export function placesOf(list: string, all: Place[]): string[] {
  const words = { input: "input of", output: "output of", pair: "zones" };
  const found = all.filter((place) => place.lists.includes(list)).map((place) => `${words[place.kind]} ${place.name}`);
  return [...new Set(found)];
}

/** The counters of all rules, and of what matched none, for rates. */
export function countersOf(all: AccessLists): Map<string, number> {
  const found = new Map<string, number>();
  for (const list of all.acl ?? []) {
    for (const ace of list.aces?.ace ?? []) {
      if (ace.statistics) found.set(ruleKey(list.name, ace.name), hits(ace));
    }
  }
  return found;
}
