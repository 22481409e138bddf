// The order of ordered-by-user lists. A PATCH appends new entries and moves none, so entries that move
// are sent one by one with `insert` and `point` (RFC 8040, section 4.8).
import type { Json } from "./edits";
import type { Model } from "./model";

/** An entry of the desired list or leaf-list. */
export interface Spot {
  /** Its keys, or its value, in URL form. */
  mark: string;
  value: Json;
  /** `stays`: others move around it. `moves`: an existing entry that moves. `new`: a new entry. */
  role: "stays" | "moves" | "new";
}

/** A list and its desired order. */
export interface Arrangement {
  /** The URL below the datastore, without keys at its end. */
  url: string;
  /** The names from the root. */
  schema: string;
  desired: Spot[];
}

/** One request: `spot` goes after `after`; `undefined`: before all others. */
export interface Move {
  spot: Spot;
  after: string | undefined;
}

/** Indexes in `numbers` of a longest increasing subsequence: entries that need not move. */
function longest(numbers: number[]): Set<number> {
  /** The last index of the best subsequence of each length. */
  const ends: number[] = [];
  const before: (number | undefined)[] = [];
  numbers.forEach((number, place) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((numbers[ends[middle] ?? 0] ?? 0) < number) low = middle + 1;
      else high = middle;
    }
    before[place] = ends[low - 1];
    ends[low] = place;
  });
  const found = new Set<number>();
  for (let place = ends[ends.length - 1]; place !== undefined; place = before[place]) found.add(place);
  return found;
}

/** The entries to arrange, starting from `from`; `undefined`: none. */
export function arrangement(from: string[], to: { mark: string; value: Json }[]): Spot[] | undefined {
  const places = new Map(from.map((mark, place) => [mark, place]));
  const known = to.filter(({ mark }) => places.has(mark));
  const still = longest(known.map(({ mark }) => places.get(mark) ?? 0));
  const marks = new Set(known.filter((_, place) => still.has(place)).map(({ mark }) => mark));
  const spots = to.map(({ mark, value }): Spot => {
    const role = marks.has(mark) ? "stays" : places.has(mark) ? "moves" : "new";
    return { mark, value, role };
  });
  return spots.some(({ role }) => role !== "stays") ? spots : undefined;
}

/** The requests that produce the desired order. Entries that others added meanwhile stay in place. */
export function moves(now: string[], desired: Spot[]): Move[] {
  const there = new Set(now);
  const asked = new Set(desired.map(({ mark }) => mark));
  const row = now.filter((mark) => asked.has(mark));
  const found: Move[] = [];
  let after: string | undefined;
  for (const spot of desired.filter(({ mark }) => there.has(mark))) {
    const goal = (): number => (after === undefined ? 0 : row.indexOf(after) + 1);
    const place = row.indexOf(spot.mark);
    if (spot.role !== "stays" && place !== goal()) {
      row.splice(place, 1);
      row.splice(goal(), 0, spot.mark);
      found.push({ spot, after });
    }
    after = spot.mark;
  }
  return found;
}

/** Whether the list has the desired order. Entries that others added meanwhile may be in between. */
export function isArranged(now: string[], desired: Spot[]): boolean {
  const asked = new Set(desired.map(({ mark }) => mark));
  const row = now.filter((mark) => asked.has(mark));
  return row.length === desired.length && desired.every(({ mark }, place) => row[place] === mark);
}

/** The hidden parts of an entry that a move would lose, as they are not in the text. */
export function lost({ schema }: Arrangement, { value }: Spot, { hidden }: Model): string[] {
  const isTyped = (name: string): boolean => {
    let here: Json | undefined = value;
    for (const step of name.split("/")) {
      here = typeof here === "object" && here !== null && !Array.isArray(here) ? here[step] : undefined;
    }
    return here !== undefined;
  };
  return (hidden.get(schema) ?? []).filter((name) => !isTyped(name));
}

/** Why a new order would lose data; `undefined`: it would not. A move sends the whole entry as it was read. */
export function obstacle(one: Arrangement, path: string, model: Model, isAdmin: boolean): string | undefined {
  if (!model.keys.has(one.schema)) return undefined;
  const moved = one.desired.filter(({ role }) => role === "moves");
  if (moved.length === 0) return undefined;
  const entries = moved.map(({ mark }) => mark.split(",").map(decodeURIComponent).join(" ")).join(", ");
  if (!isAdmin) {
    return `Nothing was sent: ${entries} of ${path} would move, and nodes that you may not read would be lost. Ask an administrator to change the order.`;
  }
  const names = [...new Set(moved.flatMap((spot) => lost(one, spot, model)))];
  if (names.length === 0) return undefined;
  return `Nothing was sent: ${entries} of ${path} would move, and ${names.join(", ")}, which the router hides, would be lost. Add ${names.join(", ")} to each entry that moves.`;
}
