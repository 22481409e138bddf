// Types and reads of the data of routing daemons, BFD, VRRP and policy rules.
import { inOrder } from "./policy_rule";
import { ask, call } from "./server";

/** Reads data of the router; `undefined`: there is none of it. */
export async function get<T>(path: string, name: string, signal?: AbortSignal): Promise<T | undefined> {
  try {
    const answer = (await ask("GET", `/restconf/data/${path}`, undefined, signal)) as Record<string, T> | undefined;
    return answer?.[name];
  } catch (error) {
    // Nothing of it is configured, or may be read.
    if ((error as { status?: number }).status === 404) return undefined;
    throw error;
  }
}

export interface Session {
  open?: boolean;
  "up-since"?: string;
  sessions?: string;
  updates?: string;
  withdrawals?: string;
  malformed?: string;
  "not-imported"?: string;
  resyncs?: string;
  repaired?: string;
  reason?: string;
  /** awaited, begun, complete or ended; absent while the table of routes is busy. */
  state?: string;
  "ipv4-routes"?: string;
  "ipv6-routes"?: string;
  "waiting-routes"?: string;
  "stale-routes"?: string;
  /** Seconds until stale routes are removed. */
  "stale-time-left"?: number;
  "refused-connections"?: string;
  "last-refusal"?: string;
}

export interface RouteSource {
  netns?: string;
  preference?: number;
  "stale-time"?: number;
  "fpm-address"?: string;
  "fpm-port"?: number;
  "bgp-address"?: string;
  "bgp-port"?: number;
  as?: number;
  "router-id"?: string;
  "add-paths"?: boolean;
  multipath?: number;
  "kernel-table"?: number;
  session?: Session;
}

/** An instance of a control-plane protocol. */
export interface Protocol {
  type: string;
  name: string;
  description?: string;
  "stoa-vrf:vrf"?: string;
  "stoa-routing:route-source"?: RouteSource;
}

/** The route sources: protocols through which daemons export their routes. */
export async function routeSources(signal: AbortSignal): Promise<Protocol[]> {
  const fields = encodeURIComponent("control-plane-protocols/control-plane-protocol(type;name;description;stoa-vrf:vrf;stoa-routing:route-source)");
  const found = await get<{ "control-plane-protocols"?: { "control-plane-protocol"?: Protocol[] } }>(
    `ietf-routing:routing?with-defaults=report-all&fields=${fields}`,
    "ietf-routing:routing",
    signal,
  );
  const all = found?.["control-plane-protocols"]?.["control-plane-protocol"] ?? [];
  return all.filter((one) => one["stoa-routing:route-source"] !== undefined && one.type.startsWith("stoa-routing:"));
}

export interface BfdSession {
  "dest-addr": string;
  "local-multiplier"?: number;
  "desired-min-tx-interval"?: number;
  "required-min-rx-interval"?: number;
  "session-running"?: {
    "local-state"?: string;
    "remote-state"?: string;
    "local-diagnostic"?: number;
    "remote-diagnostic"?: number;
    "last-change"?: string;
    "negotiated-tx-interval"?: number;
    "negotiated-rx-interval"?: number;
    "detection-time"?: string;
    failed?: boolean;
    "session-down-count"?: string;
    "receive-packet-count"?: string;
    "send-packet-count"?: string;
  };
}

export interface VirtualRouter {
  vrid: number;
  version?: string;
  priority?: number;
  state?: string;
  "is-owner"?: boolean;
  "last-adv-source"?: string;
  "up-datetime"?: string;
  "last-event"?: string;
  "new-master-reason"?: string;
  "virtual-ipv4-addresses"?: { "virtual-ipv4-address"?: { "ipv4-address": string }[] };
  "virtual-ipv6-addresses"?: { "virtual-ipv6-address"?: { "ipv6-address": string }[] };
  statistics?: Record<string, string | number>;
}

interface ProtocolInterface {
  name: string;
  "last-change"?: string;
  "oper-status"?: string;
  "stoa-bfd:bfd"?: { session?: BfdSession[] };
  "ietf-ip:ipv4"?: { "ietf-vrrp:vrrp"?: { "vrrp-instance"?: VirtualRouter[] } };
  "ietf-ip:ipv6"?: { "ietf-vrrp:vrrp"?: { "vrrp-instance"?: VirtualRouter[] } };
}

const INTERFACES = "ietf-interfaces:interfaces";

async function interfacesWith(fields: string, signal: AbortSignal): Promise<ProtocolInterface[]> {
  const path = `${INTERFACES}?with-defaults=report-all&fields=${encodeURIComponent(`interface(name;${fields})`)}`;
  return (await get<{ interface?: ProtocolInterface[] }>(path, INTERFACES, signal))?.interface ?? [];
}

export interface BfdRow extends BfdSession {
  interface: string;
}

/** The BFD sessions of all interfaces. */
export async function bfdSessions(signal: AbortSignal): Promise<BfdRow[]> {
  const list = await interfacesWith("stoa-bfd:bfd", signal);
  return list.flatMap((one) => (one["stoa-bfd:bfd"]?.session ?? []).map((session) => ({ ...session, interface: one.name })));
}

export interface VrrpRow extends VirtualRouter {
  interface: string;
  family: 4 | 6;
}

/** The virtual routers of all interfaces. */
export async function virtualRouters(signal: AbortSignal): Promise<VrrpRow[]> {
  const list = await interfacesWith("ietf-ip:ipv4/ietf-vrrp:vrrp;ietf-ip:ipv6/ietf-vrrp:vrrp", signal);
  return list.flatMap((one) =>
    ([4, 6] as const).flatMap((family) =>
      (one[`ietf-ip:ipv${family}`]?.["ietf-vrrp:vrrp"]?.["vrrp-instance"] ?? []).map((router) => ({ ...router, interface: one.name, family })),
    ),
  );
}

/** A host that has logged in. */
export interface HostLogin {
  interface: string;
  "mac-address": string;
  user?: string;
  method?: string;
  since?: string;
  idle?: number;
  remaining?: number;
  "remaining-octets"?: string;
  "in-octets"?: string;
  "out-octets"?: string;
}

/** All hosts that have logged in. */
export async function hostLogins(signal: AbortSignal): Promise<HostLogin[]> {
  return (await get<{ host?: HostLogin[] }>("stoa-login:logins", "stoa-login:logins", signal))?.host ?? [];
}

type Ports = {
  "lower-port"?: number;
  "upper-port"?: number;
};

/** Not an interface, so that it is one of the Members of a configuration, too. */
export type PolicyRule = {
  vrf: string;
  "address-family": "ipv4" | "ipv6";
  priority: number;
  description?: string;
  match?: {
    "source-prefix"?: string;
    "destination-prefix"?: string;
    interface?: string;
    dscp?: number;
    protocol?: number;
    "source-port"?: Ports;
    "destination-port"?: Ports;
  };
  table?: string;
  "ignore-default"?: boolean;
  refuse?: string;
  goto?: number;
  statistics?: { packets?: string; octets?: string };
};

/** The rules of policy routing, in the order of their evaluation. */
export async function policyRules(signal: AbortSignal): Promise<PolicyRule[]> {
  const found = await get<{ rule?: PolicyRule[] }>("ietf-routing:routing/stoa-policy:policy", "stoa-policy:policy", signal);
  return inOrder(found?.rule ?? []);
}

export interface LogMessage {
  time: string;
  program: string;
  level: "error" | "warn" | "info" | "debug" | "trace";
  target?: string;
  text?: string;
}

/** The last log messages, newest first. */
export async function logMessages(level: string, limit: number): Promise<LogMessage[]> {
  return (await call<{ message?: LogMessage[] }>("stoa-logging:recent-messages", { level, limit })).message ?? [];
}

/** Times of last changes of interfaces. */
export async function lastChanges(signal: AbortSignal): Promise<{ name: string; time: string; state: string }[]> {
  const list = await interfacesWith("oper-status;last-change", signal);
  return list.flatMap((one) => (one["last-change"] ? [{ name: one.name, time: one["last-change"], state: one["oper-status"] ?? "unknown" }] : []));
}
