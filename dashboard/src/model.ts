// Properties of lists from the OpenAPI description (/openapi.json): their keys, whether they are ordered-by user,
// and the hidden parts of their entries.
import { quoted, withoutModule } from "./data_path";

/** The names of the keys of a list, by its names from the root: "ietf-interfaces:interfaces/interface". */
export type Keys = Map<string, string[]>;

export interface Model {
  keys: Keys;
  /** Lists that are ordered-by user (RFC 7950, section 7.7.7), by their names from the root. */
  ordered: Set<string>;
  /** The nodes that the router may hide in an entry of such a list, by names from the entry on. */
  hidden: Map<string, string[]>;
}

/** The used part of the paths of an OpenAPI description. */
export type Described = Record<string, { put?: { parameters?: { name?: string }[] } }>;

const DATA = "/restconf/data/";
/** Names of hidden nodes, which the description does not mark: a missing name loses data, one too many is harmless. */
const HIDDEN = /secret|password|passphrase|private|hash|token|(^|-)key($|-)/;

const isOrdered = (item: Described[string]): boolean =>
  (item.put?.parameters ?? []).some((parameter) => parameter.name === "insert");

/** The names from the root, without keys. */
const plain = (url: string): string => url.split("/").map((part) => part.split("=")[0] ?? part).join("/");

/** The properties of all lists. */
export function modelOf(paths: Described): Model {
  const model: Model = { keys: new Map(), ordered: new Set(), hidden: new Map() };
  const urls = Object.keys(paths).filter((url) => url.startsWith(DATA));
  for (const url of urls) {
    const below = url.slice(DATA.length);
    const [name = "", places] = (below.split("/").pop() ?? "").split("=", 2);
    if (!places) continue;
    const list = withoutModule(name);
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

/** The data path of a URL below a datastore, as in errors of the router. */
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
