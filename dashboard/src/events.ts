// What happens to the datastores, as it happens, and how they stand.
import { Cell } from "./cell";
import { call, user } from "./server";
import type { Standing } from "./yang";

/** How the datastores stand, and by the page's own clock until when a commit has to be confirmed. */
export const standing = new Cell<Standing & { until?: number }>({});
/** Grows with every change of what is in force. */
export const changes = new Cell(0);
/** Grows with every change of the candidate. */
export const editions = new Cell(0);
/** Who changed what is in force last, in words. */
export const news = new Cell("");

/** How often is asked even when nothing is heard. */
const LOOK_MS = 5_000;

export async function look(): Promise<void> {
  const found = await call<Standing>("stoa-datastore:status");
  const left = found["confirm-left"];
  standing.set(left === undefined ? found : { ...found, until: performance.now() + left * 1000 });
}

interface Heard {
  "ietf-restconf:notification"?: {
    "stoa-datastore:changed"?: { author?: string; client?: string };
    "stoa-datastore:edited"?: object;
  };
}

function hear(event: MessageEvent<string>): void {
  const heard = (JSON.parse(event.data) as Heard)["ietf-restconf:notification"];
  const changed = heard?.["stoa-datastore:changed"];
  if (changed) {
    const own = changed.author === user.value?.user && changed.client === "web";
    news.set(own ? "" : `${changed.author ?? "Somebody"} changed the configuration (${changed.client ?? ""}).`);
    changes.set(changes.value + 1);
  }
  editions.set(editions.value + 1);
  void look().catch(() => undefined);
}

/** Listens while somebody is logged in and looks. */
export function listen(): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setInterval> | undefined;
  const follow = (): void => {
    const isWanted = Boolean(user.value) && document.visibilityState === "visible";
    if (isWanted && !source) {
      source = new EventSource("/restconf/streams/configuration/json");
      source.onmessage = hear;
      // A browser gives up when the answer is a refusal: it is tried anew with the next look.
      source.onerror = () => {
        if (source?.readyState === EventSource.CLOSED) source = undefined;
      };
    } else if (!isWanted && source) {
      source.close();
      source = undefined;
    }
    if (isWanted) void look().catch(() => undefined);
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
