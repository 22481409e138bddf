// The candidate as the pages edit it: read whole, changed by what is different.
import { Cell } from "./cell";
import { type Json, type Keys, type Members, edits, isSame, keysOf } from "./edits";
import { look } from "./events";
import { Failure, ask } from "./server";

const CANDIDATE = "/restconf/ds/ietf-datastores:candidate";
const ROOT = "ietf-restconf:data";

/** As it was read last; `undefined`: not read yet. */
export const candidate = new Cell<Members | undefined>(undefined);

let known: Promise<Keys> | undefined;

/** The keys of all lists, from the description of the data; read once. */
async function keys(): Promise<Keys> {
  known ??= ask("GET", "/openapi.json").then((described) => keysOf(Object.keys((described as { paths: object }).paths)));
  known.catch(() => (known = undefined));
  return known;
}

/** Reads the candidate. */
export async function load(signal?: AbortSignal): Promise<Members> {
  const answer = (await ask("GET", `${CANDIDATE}?content=config`, undefined, signal)) as Members | undefined;
  const found = (answer?.[ROOT] ?? {}) as Members;
  if (!isSame(found, candidate.value)) candidate.set(found);
  return candidate.value ?? found;
}

const wrong = (message: string): Failure => new Failure(400, [{ path: "", message, tag: "" }]);

/**
 * Makes the candidate what is wanted, and reads it anew. What somebody else changed meanwhile in other places stays.
 * It fails with the router's reasons; then what could not be is not there.
 */
export async function save(old: Members, wanted: Members): Promise<void> {
  const { merge, remove, unclear } = edits(old, wanted, await keys());
  if (unclear.length > 0) throw wrong(`This page does not know the keys of ${unclear.join(", ")}: use the console.`);
  try {
    if (merge) await ask("PATCH", CANDIDATE, { [ROOT]: merge });
    for (const url of remove) {
      try {
        await ask("DELETE", `${CANDIDATE}/${url}`);
      } catch (error) {
        // Gone already: with what stood above it, or by somebody else's hand.
        if ((error as Failure).status !== 404 && (error as Failure).status !== 409) throw error;
      }
    }
  } finally {
    await load();
    void look().catch(() => undefined);
  }
}

/** A copy that can be changed. */
export const copy = <T extends Json>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** The members at a way down, made where they are missing. */
export function below(members: Members, ...way: string[]): Members {
  let here = members;
  for (const name of way) {
    const next = here[name];
    if (typeof next === "object" && next !== null && !Array.isArray(next)) {
      here = next;
    } else {
      const made: Members = {};
      here[name] = made;
      here = made;
    }
  }
  return here;
}

/** The entries of a list; they can be changed when they are there. */
export const entries = (members: Members | undefined, name: string): Members[] => {
  const list = members?.[name];
  return Array.isArray(list) ? (list as Members[]) : [];
};

/** The members at a way down, when they are there. */
export function at(members: Members | undefined, ...way: string[]): Members | undefined {
  let here: Json | undefined = members;
  for (const name of way) {
    if (typeof here !== "object" || here === null || Array.isArray(here)) return undefined;
    here = here[name];
  }
  return typeof here === "object" && here !== null && !Array.isArray(here) ? here : undefined;
}
