// The candidate as the pages edit it: read as a whole, changed by differences.
import { Cell } from "./cell";
import { type Json, type Members, edits, isSame, lookUp, markOf } from "./edits";
import { look } from "./events";
import { commitFaults } from "./field_faults";
import { type Described, type Model, modelOf, pathOf } from "./model";
import { type Arrangement, isArranged, moves, obstacle } from "./order";
import { Failure, ask, user } from "./server";

const CANDIDATE = "/restconf/ds/ietf-datastores:candidate";
const ROOT = "ietf-restconf:data";

/** The last read version; `undefined`: not read yet. */
export const candidate = new Cell<Members | undefined>(undefined);

let known: Promise<Model> | undefined;

/** The properties of lists, from the OpenAPI description; read once. */
async function model(): Promise<Model> {
  known ??= ask("GET", "/openapi.json").then((described) => modelOf((described as { paths: Described }).paths));
  known.catch(() => (known = undefined));
  return known;
}

/** Reads the candidate. */
export async function load(signal?: AbortSignal): Promise<Members> {
  const answer = (await ask("GET", `${CANDIDATE}?content=config`, undefined, signal)) as Members | undefined;
  const found = (answer?.[ROOT] ?? {}) as Members;
  if (!isSame(found, candidate.value)) {
    candidate.set(found);
    commitFaults.set([]);
  }
  return candidate.value ?? found;
}

const wrong = (message: string): Failure => new Failure(400, [{ path: "", message, tag: "" }]);

/** Part of the error for a list or leaf-list that is not ordered-by user. */
const HAS_NO_ORDER = "ordered-by user";

/** The URL keys of the entries of a list. */
function marks(whole: Members, { url, schema }: Arrangement, known: Model): string[] {
  const list = lookUp(whole, url, known);
  return Array.isArray(list) ? list.map((value) => markOf(value, known.keys.get(schema))) : [];
}

/** Orders the entries of a list; returns whether the list is ordered-by user. */
async function arrange(now: Members, one: Arrangement, known: Model): Promise<boolean> {
  const isTyped = (known.hidden.get(one.schema) ?? []).length > 0;
  const parts = one.schema.split("/");
  const last = parts[parts.length - 1] ?? "";
  const module = [...parts].reverse().find((part) => part.includes(":"))?.split(":")[0] ?? "";
  const name = last.includes(":") ? last : `${module}:${last}`;
  for (const { spot, after } of moves(marks(now, one, known), one.desired)) {
    const url = `${one.url}=${spot.mark}`;
    // An existing entry keeps the changes of others. With hidden parts, only the entered text is complete.
    const value = spot.role === "moves" && !isTyped ? (lookUp(now, url, known) ?? spot.value) : spot.value;
    const place = after === undefined ? "insert=first" : `insert=after&point=${encodeURIComponent(`/${one.url}=${after}`)}`;
    try {
      await ask("PUT", `${CANDIDATE}/${url}?${place}`, { [name]: [value] });
    } catch (error) {
      if (!known.keys.has(one.schema) && (error as Failure).message.includes(HAS_NO_ORDER)) return false;
      throw error;
    }
  }
  return true;
}

/**
 * Changes the candidate to the desired state and reads it again. Concurrent changes of other nodes stay.
 * Returns the data paths of lists that the router stores in another order.
 * On failure, it throws the errors of the router.
 */
export async function save(old: Members, desired: Members): Promise<string[]> {
  const known = await model();
  const { merge, remove, unclear, order } = edits(old, desired, known);
  if (unclear.length > 0) throw wrong(`The keys of ${unclear.join(", ")} are unknown to this page: use the console.`);
  for (const one of order) {
    const why = obstacle(one, pathOf(one.url, known), known, user.value?.admin === true);
    if (why) throw wrong(why);
  }
  const meant: Arrangement[] = [];
  try {
    if (merge) await ask("PATCH", CANDIDATE, { [ROOT]: merge });
    for (const url of remove) {
      try {
        await ask("DELETE", `${CANDIDATE}/${url}`);
      } catch (error) {
        // Already deleted, with its parent or by another user.
        if ((error as Failure).status !== 404 && (error as Failure).status !== 409) throw error;
      }
    }
    const now = order.length > 0 ? await load() : {};
    for (const one of order) if (await arrange(now, one, known)) meant.push(one);
  } finally {
    await load();
    void look().catch(() => undefined);
  }
  const whole = candidate.value ?? {};
  return meant.filter((one) => !isArranged(marks(whole, one, known), one.desired)).map((one) => pathOf(one.url, known));
}

/** A deep copy. */
export const copy = <T extends Json>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** The members at a path, created where they are missing. */
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

/** The entries of a list, to be modified in place. */
export const entries = (members: Members | undefined, name: string): Members[] => {
  const list = members?.[name];
  return Array.isArray(list) ? (list as Members[]) : [];
};

/** The members at a path, if they exist. */
export function at(members: Members | undefined, ...way: string[]): Members | undefined {
  let here: Json | undefined = members;
  for (const name of way) {
    if (typeof here !== "object" || here === null || Array.isArray(here)) return undefined;
    here = here[name];
  }
  return typeof here === "object" && here !== null && !Array.isArray(here) ? here : undefined;
}
