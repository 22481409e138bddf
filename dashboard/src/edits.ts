// The requests that change a configuration into the desired one: one that merges, and one for each deleted node.
// Hidden nodes (password hashes, secrets) are in none of them and stay.

import type { Model } from "./model";
import { type Arrangement, arrangement } from "./order";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Members = { [name: string]: Json };

export interface Edits {
  /** New or changed nodes, with the keys above them; `undefined`: none. */
  merge: Members | undefined;
  /** Deleted nodes: URLs below the datastore. */
  remove: string[];
  /** Lists whose keys are unknown. */
  unclear: string[];
  /** Lists whose order the merge does not produce, parents first. */
  order: Arrangement[];
}

export const isMembers = (value: Json | undefined): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isEntries = (value: Json): value is Members[] =>
  Array.isArray(value) && value.length > 0 && value.every(isMembers);

/** Whether both are equal, independent of the order of members. */
export function isSame(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((value, at) => isSame(value, other[at]));
  }
  if (!isMembers(one) || !isMembers(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => name in other && isSame(one[name], other[name]))
  );
}

/** The URL form of a leaf value. */
const inUrl = (value: Json): string =>
  encodeURIComponent(String(value)).replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);

/** The URL form of the keys of an entry, or of a leaf-list value. */
export const markOf = (value: Json, names: string[] | undefined): string =>
  names && isMembers(value) ? names.map((name) => inUrl(value[name] ?? "")).join(",") : inUrl(value);

/** The edits that change `old` into `desired`. */
export function edits(old: Members, desired: Members, model: Model): Edits {
  const found: Edits = { merge: undefined, remove: [], unclear: [], order: [] };

  const arrange = (from: Json[], to: Json[], url: string, schema: string, names?: string[]): void => {
    const marked = to.map((value) => ({ mark: markOf(value, names), value }));
    const desired = arrangement(from.map((value) => markOf(value, names)), marked);
    if (desired) found.order.push({ url, schema, desired });
  };

  const entries = (before: Json, after: Json, url: string, schema: string): Json | undefined => {
    const names = model.keys.get(schema);
    const from = isEntries(before) ? before : [];
    const to = isEntries(after) ? after : [];
    if (!names) {
      found.unclear.push(schema);
      return after;
    }
    // Parents come first: a move sends an entry with all nodes below it, as it was read.
    if (model.ordered.has(schema)) arrange(from, to, url, schema, names);
    const mark = (entry: Members): string => markOf(entry, names);
    const known = new Map(from.map((entry) => [mark(entry), entry]));
    const different: Json[] = [];
    for (const entry of to) {
      const previous = known.get(mark(entry));
      known.delete(mark(entry));
      const part = previous ? members(previous, entry, `${url}=${mark(entry)}`, schema) : entry;
      if (part) different.push({ ...Object.fromEntries(names.map((name) => [name, entry[name] ?? null])), ...part });
    }
    for (const gone of known.keys()) found.remove.push(`${url}=${gone}`);
    return different.length > 0 ? different : undefined;
  };

  const values = (before: Json[], after: Json[], url: string, schema: string): Json | undefined => {
    // Only the router knows whether a leaf-list is ordered-by user.
    arrange(before, after, url, schema);
    for (const value of before) {
      if (!after.some((other) => isSame(value, other))) found.remove.push(`${url}=${inUrl(value)}`);
    }
    const added = after.filter((value) => !before.some((other) => isSame(value, other)));
    return added.length > 0 ? added : undefined;
  };

  const gone = (value: Json, url: string, schema: string): void => {
    // A list has no URL of its own: its entries are deleted one by one.
    if (isEntries(value)) entries(value, [], url, schema);
    else if (Array.isArray(value) && !isSame(value, [null])) values(value, [], url, schema);
    else found.remove.push(url);
  };

  const members = (before: Members, after: Members, url: string, schema: string): Members | undefined => {
    const different: Members = {};
    for (const [name, value] of Object.entries(before)) {
      if (!(name in after)) gone(value, join(url, name), join(schema, name));
    }
    for (const [name, value] of Object.entries(after)) {
      const previous = before[name];
      const [here, place] = [join(url, name), join(schema, name)];
      let part: Json | undefined;
      if (previous === undefined) part = value;
      else if (isMembers(value) && isMembers(previous)) part = members(previous, value, here, place);
      else if (isSame(value, previous)) part = undefined;
      else if (isEntries(value) || isEntries(previous)) part = entries(previous, value, here, place);
      else if (Array.isArray(value) && Array.isArray(previous)) part = values(previous, value, here, place);
      else part = value;
      if (part !== undefined) different[name] = part;
    }
    return Object.keys(different).length > 0 ? different : undefined;
  };

  found.merge = members(old, desired, "", "");
  return found;
}

/** The value at a URL below the datastore. */
export function lookUp(whole: Members, url: string, model: Model): Json | undefined {
  let here: Json | undefined = whole;
  let schema = "";
  for (const part of url.split("/")) {
    const [name = "", mark] = part.split("=", 2);
    schema = join(schema, name);
    here = isMembers(here) ? here[name] : undefined;
    const names = model.keys.get(schema);
    if (mark !== undefined) here = Array.isArray(here) ? here.find((one) => markOf(one, names) === mark) : undefined;
  }
  return here;
}

const join = (above: string, name: string): string => (above === "" ? name : `${above}/${name}`);
