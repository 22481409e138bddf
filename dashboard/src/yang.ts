// Types of the YANG data that the pages show.
import { ask } from "./server";

export interface Address {
  ip: string;
  "prefix-length": number;
  origin?: string;
  status?: string;
  "stoa-interfaces:status"?: string;
}

export interface Neighbor {
  ip: string;
  "link-layer-address"?: string;
  origin?: string;
  "stoa-interfaces:neighbor-state"?: string;
  "stoa-interfaces:age"?: number;
  "stoa-interfaces:queued"?: number;
}

export interface Family {
  enabled?: boolean;
  forwarding?: boolean;
  mtu?: number;
  address?: Address[];
  neighbor?: Neighbor[];
}

export interface Interface {
  name: string;
  description?: string;
  enabled?: boolean;
  type?: string;
  "admin-status"?: string;
  "oper-status"?: string;
  "last-change"?: string;
  "phys-address"?: string;
  "higher-layer-if"?: string[];
  "lower-layer-if"?: string[];
  statistics?: Record<string, string | number>;
  "stoa-interfaces:port-state"?: {
    driver?: string;
    detail?: string;
    mtu?: number;
    "rx-queues"?: number;
    "tx-queues"?: number;
  };
  "ietf-ip:ipv4"?: Family;
  "ietf-ip:ipv6"?: Family;
}

export interface Worker {
  index: number;
  cpu?: number;
  "numa-node"?: number;
  polling?: string;
  busy?: string;
  loops?: string;
  sleeps?: string;
  packets?: string;
  vector?: string;
  "handed-out"?: string;
  "handed-in"?: string;
  "cross-node"?: string;
  queue?: string[];
}

export interface Node {
  name: string;
  worker: number;
  description?: string;
  calls?: string;
  packets?: string;
  cycles?: string;
  next?: string[];
}

export interface Drop {
  reason: string;
  description?: string;
  packets?: string;
}

export interface Limit {
  name: string;
  used?: string;
  limit?: string;
  refused?: string;
  fix?: string;
}

export interface Forwarder {
  version?: string;
  "process-id"?: number;
  started?: string;
  "in-sync"?: boolean;
  kernel?: string;
  memory?: string;
  driver?: string[];
  "time-stamp-counter"?: string;
  workers?: { worker?: Worker[] };
  nodes?: { node?: Node[] };
  drops?: { drop?: Drop[] };
  limits?: { limit?: Limit[] };
  conservation?: Record<string, string | boolean>;
}

export interface Rib {
  name: string;
  "stoa-routing:route-counts"?: { protocol?: { name: string; routes: string }[] };
}

export interface Change {
  operation: "create" | "delete" | "replace";
  path: string;
  old?: string;
  new?: string;
}

export interface Entry {
  number: string;
  time: string;
  author: string;
  client: string;
  comment?: string;
}

export interface DatastoreStatus {
  edited?: boolean;
  "confirm-by"?: string;
  "confirm-left"?: number;
  author?: string;
  holder?: string;
  "locked-since"?: string;
}

const DATA = "/restconf/data";

async function get<T>(path: string, name: string, signal?: AbortSignal): Promise<T | undefined> {
  const answer = (await ask("GET", `${DATA}/${path}`, undefined, signal)) as Record<string, T> | undefined;
  return answer?.[name];
}

const FIGURES = "interface(name;admin-status;oper-status;statistics;lower-layer-if)";

/** State and counters of all interfaces, without addresses and neighbours. */
export async function interfaceCounters(signal: AbortSignal): Promise<Interface[]> {
  const path = `ietf-interfaces:interfaces?content=nonconfig&fields=${encodeURIComponent(FIGURES)}`;
  const found = await get<{ interface?: Interface[] }>(path, "ietf-interfaces:interfaces", signal);
  return found?.interface ?? [];
}

/** All interfaces: configuration, state and neighbours. */
export async function interfaces(signal?: AbortSignal): Promise<Interface[]> {
  const found = await get<{ interface?: Interface[] }>("ietf-interfaces:interfaces", "ietf-interfaces:interfaces", signal);
  return found?.interface ?? [];
}

/** One interface, configuration and state. */
export async function oneInterface(name: string, signal: AbortSignal): Promise<Interface | undefined> {
  const path = `ietf-interfaces:interfaces/interface=${encodeURIComponent(name)}`;
  const found = await get<Interface[]>(path, "ietf-interfaces:interface", signal);
  return found?.[0];
}

/** The state of the forwarder. */
export async function forwarder(signal: AbortSignal): Promise<Forwarder> {
  return (await get<Forwarder>("stoa-forwarder:forwarder", "stoa-forwarder:forwarder", signal)) ?? {};
}

export async function nodes(signal: AbortSignal): Promise<Node[]> {
  const found = await get<{ node?: Node[] }>("stoa-forwarder:forwarder/nodes", "stoa-forwarder:nodes", signal);
  return found?.node ?? [];
}

export async function drops(signal: AbortSignal): Promise<Drop[]> {
  const found = await get<{ drop?: Drop[] }>("stoa-forwarder:forwarder/drops", "stoa-forwarder:drops", signal);
  return found?.drop ?? [];
}

export async function workers(signal: AbortSignal): Promise<Worker[]> {
  const found = await get<{ worker?: Worker[] }>("stoa-forwarder:forwarder/workers", "stoa-forwarder:workers", signal);
  return found?.worker ?? [];
}

/** The routing tables with their numbers of routes. */
export async function ribs(signal: AbortSignal): Promise<Rib[]> {
  const fields = encodeURIComponent("ribs/rib(name;stoa-routing:route-counts)");
  const path = `ietf-routing:routing?content=nonconfig&fields=${fields}`;
  const found = await get<{ ribs?: { rib?: Rib[] } }>(path, "ietf-routing:routing", signal);
  return found?.ribs?.rib ?? [];
}
