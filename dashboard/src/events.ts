// Events and status of the datastores.
import { Cell } from "./cell";
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

/** Poll interval without events. */
const LOOK_MS = 5_000;

export async function look(): Promise<void> {
  const found = await call<DatastoreStatus>("stoa-datastore:status");
  const left = found["confirm-left"];
  datastoreStatus.set(left === undefined ? found : { ...found, until: performance.now() + left * 1000 });
}

interface Notification {
  "ietf-restconf:notification"?: {
    "stoa-datastore:changed"?: { author?: string; client?: string };
    "stoa-datastore:edited"?: object;
  };
}

function receive(event: MessageEvent<string>): void {
  const notification = (JSON.parse(event.data) as Notification)["ietf-restconf:notification"];
  const changed = notification?.["stoa-datastore:changed"];
  if (changed) {
    const own = changed.author === user.value?.user && changed.client === "web";
    notice.set(own ? "" : `${changed.author ?? "Somebody"} changed the configuration (${changed.client ?? ""}).`);
    changes.set(changes.value + 1);
  }
  editions.set(editions.value + 1);
  void look().catch(() => undefined);
}

/** Subscribes to events while a user is logged in and the page is visible. */
export function listen(): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setInterval> | undefined;
  const follow = (): void => {
    const isNeeded = Boolean(user.value) && document.visibilityState === "visible";
    if (isNeeded && !source) {
      source = new EventSource("/restconf/streams/configuration/json");
      source.onmessage = receive;
      // A browser does not reconnect after an error status: the next poll reconnects.
      source.onerror = () => {
        if (source?.readyState === EventSource.CLOSED) source = undefined;
      };
    } else if (!isNeeded && source) {
      source.close();
      source = undefined;
    }
    if (isNeeded) void look().catch(() => undefined);
  };
  const forget = user.listen(follow);
  document.addEventListener("visibilitychange", follow);
  timer = setInterval(follow, LOOK_MS);
  follow();
  return () => {
    forget();
    document.removeEventListener("visibilitychange", follow);
    clearInterval(timer);
    source?.close();
  };
}
