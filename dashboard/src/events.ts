// Events of the router, and the status of the datastores.
import { Cell } from "./cell";
import type { Mood } from "./parts";
import { place } from "./route";
import { call, user } from "./server";
import type { DatastoreStatus } from "./yang";

/** The status of the datastores, with the confirmation deadline by the clock of the page. */
export const datastoreStatus = new Cell<DatastoreStatus & { until?: number }>({});
/** Counts changes of running. */
export const changes = new Cell(0);
/** Counts changes of the candidate. */
export const editions = new Cell(0);
/** A message about the last change of running. */
export const notice = new Cell("");

/** An event for the list of events. */
export interface RouterEvent {
  time: string;
  mood: Mood;
  /** Its kind: "commit", "interface". */
  what: string;
  words: string;
}

/** Events that the page keeps. */
const EVENTS = 200;
/** Events received since the page was opened, newest first. */
export const eventsSeen = new Cell<RouterEvent[]>([]);

/** Poll interval without events. */
const LOOK_MS = 5_000;

export async function look(): Promise<void> {
  const found = await call<DatastoreStatus>("stoa-datastore:status");
  const left = found["confirm-left"];
  datastoreStatus.set(left === undefined ? found : { ...found, until: performance.now() + left * 1000 });
}

interface Notification {
  "ietf-restconf:notification"?: {
    eventTime?: string;
    "stoa-datastore:changed"?: { author?: string; client?: string; number?: string };
    "stoa-datastore:edited"?: object;
    "stoa-interfaces:interface-state-changed"?: { name?: string; "oper-status"?: string };
  };
}

const keep = (event: RouterEvent): void => eventsSeen.set([event, ...eventsSeen.value].slice(0, EVENTS));

function receive(event: MessageEvent<string>): void {
  const notification = (JSON.parse(event.data) as Notification)["ietf-restconf:notification"];
  const time = notification?.eventTime ?? new Date().toISOString();
  const link = notification?.["stoa-interfaces:interface-state-changed"];
  if (link) {
    const state = link["oper-status"] ?? "unknown";
    keep({ time, mood: state === "up" ? "good" : "bad", what: "interface", words: `${link.name ?? ""} went ${state}` });
    return;
  }
  const changed = notification?.["stoa-datastore:changed"];
  if (changed) {
    const own = changed.author === user.value?.user && changed.client === "web";
    notice.set(own ? "" : `${changed.author ?? "Somebody"} changed the configuration (${changed.client ?? ""}).`);
    // A commit with a number is in the history.
    if (!changed.number) keep({ time, mood: "warn", what: "commit", words: `By ${changed.author ?? "somebody"} (${changed.client ?? ""}), not confirmed yet` });
    changes.set(changes.value + 1);
  }
  editions.set(editions.value + 1);
  void look().catch(() => undefined);
}

/** The streams that the current page needs. The router polls its forwarder for that of interfaces. */
const needed = (): string[] => (place.value.page === "log" ? ["configuration", "interfaces"] : ["configuration"]);

/** Subscribes to events while a user is logged in and the page is visible. */
export function listen(): () => void {
  const sources = new Map<string, EventSource>();
  const open = (name: string): void => {
    const source = new EventSource(`/restconf/streams/${name}/json`);
    sources.set(name, source);
    source.onmessage = receive;
    // A browser does not reconnect after an error status: the next poll reconnects.
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) sources.delete(name);
    };
  };
  const end = (): void => {
    for (const source of sources.values()) source.close();
    sources.clear();
  };
  const follow = (): void => {
    const isNeeded = Boolean(user.value) && document.visibilityState === "visible";
    if (!isNeeded) {
      end();
      return;
    }
    const names = needed();
    for (const name of names) if (!sources.has(name)) open(name);
    for (const [name, source] of sources) {
      if (names.includes(name)) continue;
      source.close();
      sources.delete(name);
    }
    void look().catch(() => undefined);
  };
  const forget = [user.listen(follow), place.listen(follow)];
  document.addEventListener("visibilitychange", follow);
  const timer = setInterval(follow, LOOK_MS);
  follow();
  return () => {
    for (const one of forget) one();
    document.removeEventListener("visibilitychange", follow);
    clearInterval(timer);
    end();
  };
}
