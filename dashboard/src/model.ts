// What the router's description of its data (/openapi.json) says of lists: their keys, whether their order is the
// operator's, and what of an entry is not shown.

/** The names of the keys of a list, by its names from the root: "ietf-interfaces:interfaces/interface". */
export type Keys = Map<string, string[]>;

export interface Model {
  keys: Keys;
  /** Lists whose order has a meaning (RFC 7950, section 7.7.7), by their names from the root. */
  ordered: Set<string>;
  /** What the router may hide in an entry of such a list, by names from the entry on. */
  hidden: Map<string, string[]>;
}

/** The paths of an OpenAPI description, as far as they are looked at. */
export type Described = Record<string, { put?: { parameters?: { name?: string }[] } }>;

const DATA = "/restconf/data/";
/** Names of what nobody reads: the description has no mark for it. A name too many loses nothing, one too few would. */
const HIDDEN = /secret|password|passphrase|private|hash|token|(^|-)key($|-)/;

const isOrdered = (item: Described[string]): boolean =>
  (item.put?.parameters ?? []).some((parameter) => parameter.name === "insert");

/** The names from the root, without keys. */
const plain = (url: string): string => url.split("/").map((part) => part.split("=")[0] ?? part).join("/");

/** What is said of lists. */
export function modelOf(paths: Described): Model {
  const model: Model = { keys: new Map(), ordered: new Set(), hidden: new Map() };
  const urls = Object.keys(paths).filter((url) => url.startsWith(DATA));
  for (const url of urls) {
    const below = url.slice(DATA.length);
    const [name = "", places] = (below.split("/").pop() ?? "").split("=", 2);
    if (!places) continue;
    const list = name.split(":").pop() ?? name;
    const names = places.split(",").map((place) =>
      place
        .replace(/[{}]/g, "")
        .slice(list.length + 1)
        .replace(/_+$/, ""),
    );
    const schema = plain(below);
    model.keys.set(schema, names);
    if (!isOrdered(paths[url] ?? {})) continue;
    model.ordered.add(schema);
    const inside = urls.filter((other) => other.startsWith(`${url}/`)).map((other) => plain(other.slice(url.length + 1)));
    model.hidden.set(schema, inside.filter((one) => HIDDEN.test(one.split("/").pop() ?? one)));
  }
  return model;
}

/** The data path of a URL below a datastore, as the router's errors have it. */
export function pathOf(url: string, { keys }: Model): string {
  let schema = "";
  const steps = url.split("/").map((part) => {
    const [name = "", marks] = part.split("=", 2);
    schema = schema === "" ? name : `${schema}/${name}`;
    const names = marks === undefined ? [] : (keys.get(schema) ?? ["."]);
    const values = (marks ?? "").split(",").map(decodeURIComponent);
    return name + names.map((key, at) => `[${key}=${quoted(values[at] ?? "")}]`).join("");
  });
  return `/${steps.join("/")}`;
}

const quoted = (value: string): string => (value.includes("'") ? `"${value}"` : `'${value}'`);
