// From a configuration and what it shall be to the requests that make it so: one that merges, and one for each node
// that goes. What the router does not show (hashes of passwords, secrets) is in none of them and stays.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Members = { [name: string]: Json };

/** The names of the keys of a list, by its names from the root: "ietf-interfaces:interfaces/interface". */
export type Keys = Map<string, string[]>;

export interface Edits {
  /** What is new or different, with the keys on the way to it; `undefined`: nothing. */
  merge: Members | undefined;
  /** What goes: URLs below the datastore. */
  remove: string[];
  /** Lists whose entries cannot be told apart, for nobody says their keys. */
  unclear: string[];
}

/** The lists with their keys, out of the names of the URLs that the router describes. */
export function keysOf(urls: string[]): Keys {
  const keys: Keys = new Map();
  for (const url of urls) {
    const below = url.replace(/^\/restconf\/data\//, "");
    if (below === url) continue;
    const parts = below.split("/");
    const last = parts[parts.length - 1] ?? "";
    const [name = "", places] = last.split("=", 2);
    if (!places) continue;
    const plain = name.split(":").pop() ?? name;
    const names = places.split(",").map((place) =>
      place
        .replace(/[{}]/g, "")
        .slice(plain.length + 1)
        .replace(/_+$/, ""),
    );
    keys.set(parts.map((part) => part.split("=")[0]).join("/"), names);
  }
  return keys;
}

const isMembers = (value: Json | undefined): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isEntries = (value: Json): value is Members[] =>
  Array.isArray(value) && value.length > 0 && value.every(isMembers);

/** Whether both are the same, whatever the order of members. */
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

/** The value of a leaf in a URL. */
const inUrl = (value: Json): string =>
  encodeURIComponent(String(value)).replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);

/** What makes `wanted` of `old`. */
export function edits(old: Members, wanted: Members, keys: Keys): Edits {
  const found: Edits = { merge: undefined, remove: [], unclear: [] };

  const entries = (before: Json, after: Json, url: string, schema: string): Json | undefined => {
    const names = keys.get(schema);
    const from = isEntries(before) ? before : [];
    const to = isEntries(after) ? after : [];
    if (!names) {
      found.unclear.push(schema);
      return after;
    }
    const mark = (entry: Members): string => names.map((name) => inUrl(entry[name] ?? "")).join(",");
    const known = new Map(from.map((entry) => [mark(entry), entry]));
    const different: Json[] = [];
    for (const entry of to) {
      const twin = known.get(mark(entry));
      known.delete(mark(entry));
      const part = twin ? members(twin, entry, `${url}=${mark(entry)}`, schema) : entry;
      if (part) different.push({ ...Object.fromEntries(names.map((name) => [name, entry[name] ?? null])), ...part });
    }
    for (const gone of known.keys()) found.remove.push(`${url}=${gone}`);
    return different.length > 0 ? different : undefined;
  };

  const values = (before: Json[], after: Json[], url: string): Json | undefined => {
    for (const value of before) {
      if (!after.some((other) => isSame(value, other))) found.remove.push(`${url}=${inUrl(value)}`);
    }
    const added = after.filter((value) => !before.some((other) => isSame(value, other)));
    return added.length > 0 ? added : undefined;
  };

  const gone = (value: Json, url: string, schema: string): void => {
    // A list has no URL of its own: its entries go one by one.
    if (isEntries(value)) entries(value, [], url, schema);
    else if (Array.isArray(value) && !isSame(value, [null])) values(value, [], url);
    else found.remove.push(url);
  };

  const members = (before: Members, after: Members, url: string, schema: string): Members | undefined => {
    const different: Members = {};
    for (const [name, value] of Object.entries(before)) {
      if (!(name in after)) gone(value, join(url, name), join(schema, name));
    }
    for (const [name, value] of Object.entries(after)) {
      const twin = before[name];
      const [here, place] = [join(url, name), join(schema, name)];
      let part: Json | undefined;
      if (twin === undefined) part = value;
      else if (isMembers(value) && isMembers(twin)) part = members(twin, value, here, place);
      else if (isSame(value, twin)) part = undefined;
      else if (isEntries(value) || isEntries(twin)) part = entries(twin, value, here, place);
      else if (Array.isArray(value) && Array.isArray(twin)) part = values(twin, value, here);
      else part = value;
      if (part !== undefined) different[name] = part;
    }
    return Object.keys(different).length > 0 ? different : undefined;
  };

  found.merge = members(old, wanted, "", "");
  return found;
}

const join = (above: string, name: string): string => (above === "" ? name : `${above}/${name}`);
