// The current location, kept in the fragment of the URL, so that links, history and bookmarks work.
import { Cell } from "./cell";

export interface Place {
  /** The first segment: "interfaces". */
  page: string;
  /** The segments after it, such as the name of an interface. */
  rest: string[];
  query: Map<string, string>;
}

/** Parses a URL fragment. */
export function read(hash: string): Place {
  const text = hash.replace(/^#?\/?/, "");
  const [path = "", query = ""] = text.split("?", 2);
  const word = (part: string): string => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  const [page = "", ...rest] = path.split("/").map(word);
  const pairs = [...new URLSearchParams(query).entries()];
  return { page, rest: rest.filter((part) => part !== ""), query: new Map(pairs) };
}

/** The link to a location. */
export function link(page: string, rest: string[] = [], query: Record<string, string> = {}): string {
  const path = [page, ...rest].map(encodeURIComponent).join("/");
  const pairs = Object.entries(query).filter(([, value]) => value !== "");
  return `#/${path}${pairs.length > 0 ? `?${new URLSearchParams(pairs).toString()}` : ""}`;
}

const here = (): Place => read(typeof location === "undefined" ? "" : location.hash);

export const place = new Cell<Place>(here());

export const go = (to: string): void => {
  location.hash = to;
};

if (typeof window !== "undefined") {
  window.addEventListener("hashchange", () => place.set(here()));
}
