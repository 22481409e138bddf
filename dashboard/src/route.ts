// Where in the page one is: kept behind the # of its address, so that links, the way back and bookmarks work.
import { Cell } from "./cell";

export interface Place {
  /** The first word: "interfaces". */
  page: string;
  /** What stands behind it: the name of an interface. */
  rest: string[];
  query: Map<string, string>;
}

/** Reads what stands behind the #. */
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

/** The link to a place. */
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
