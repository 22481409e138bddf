// The order of lists that their users order: a PATCH puts what is new at the end and moves nothing, so that entries
// are put to their places one by one, by `insert` and `point` (RFC 8040, section 4.8).
import type { Json } from "./edits";
import type { Model } from "./model";

/** An entry of a list, or a value of a leaf-list, that is wanted. */
export interface Spot {
  /** Its keys, or its value, as they stand in a URL. */
  mark: string;
  value: Json;
  /** `stays`: others move around it. `moves`: it was there, and its likes stay. `new`: it was not. */
  role: "stays" | "moves" | "new";
}

/** A list and its wanted order. */
export interface Arrangement {
  /** Below the datastore, without keys at its end. */
  url: string;
  /** By its names from the root. */
  schema: string;
  wanted: Spot[];
}

/** One request: `spot` goes behind `after`; `undefined`: before all others. */
export interface Move {
  spot: Spot;
  after: string | undefined;
}

/** Places in `numbers` of a longest sequence that grows: what need not be moved. */
function longest(numbers: number[]): Set<number> {
  /** Where the best sequence of each length ends. */
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

/** What has to be placed to make a list of `from`; `undefined`: nothing. */
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

/** The requests that make the wanted order of what is there now; what others added meanwhile stays where it is. */
export function moves(now: string[], wanted: Spot[]): Move[] {
  const there = new Set(now);
  const asked = new Set(wanted.map(({ mark }) => mark));
  const row = now.filter((mark) => asked.has(mark));
  const found: Move[] = [];
  let after: string | undefined;
  for (const spot of wanted.filter(({ mark }) => there.has(mark))) {
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

/** Whether what is there now has the wanted order; what others added meanwhile may stand between. */
export function isArranged(now: string[], wanted: Spot[]): boolean {
  const asked = new Set(wanted.map(({ mark }) => mark));
  const row = now.filter((mark) => asked.has(mark));
  return row.length === wanted.length && wanted.every(({ mark }, place) => row[place] === mark);
}

/** The parts of an entry that a move would lose, for the router does not show them and they are not typed anew. */
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

/** Why the order cannot be made without a loss; `undefined`: it can. A move sends the whole entry as it was read. */
export function obstacle(one: Arrangement, path: string, model: Model, isAdmin: boolean): string | undefined {
  if (!model.keys.has(one.schema)) return undefined;
  const moved = one.wanted.filter(({ role }) => role === "moves");
  if (moved.length === 0) return undefined;
  const entries = moved.map(({ mark }) => mark.split(",").map(decodeURIComponent).join(" ")).join(", ");
  if (!isAdmin) {
    return `Nothing was sent: ${entries} of ${path} would move, and what the router may hide from you there would be lost. Ask an administrator to change the order.`;
  }
  const names = [...new Set(moved.flatMap((spot) => lost(one, spot, model)))];
  if (names.length === 0) return undefined;
  return `Nothing was sent: ${entries} of ${path} would move, and ${names.join(", ")}, which the router does not show, would be lost. Write ${names.join(", ")} into each entry that moves, too.`;
}
