// Positions of data nodes in a JSON text, to show an error of the router at its line.
import { steps, withoutModule } from "./data_path";

interface Place {
  /** The position of the value in the text. */
  begin: number;
  members?: Map<string, Place>;
  entries?: Place[];
  /** The value of a leaf as text. */
  value?: string;
}

/** A syntax error and its position. */
export interface Broken {
  /** Zero-based. */
  at: number;
  message: string;
}

class Reader {
  at = 0;
  constructor(readonly text: string) {}

  space(): void {
    while (/\s/.test(this.text.charAt(this.at))) this.at += 1;
  }

  string(): string {
    const begin = this.at;
    this.at += 1;
    while (this.at < this.text.length && this.text.charAt(this.at) !== '"') {
      this.at += this.text.charAt(this.at) === "\\" ? 2 : 1;
    }
    this.at += 1;
    return JSON.parse(this.text.slice(begin, this.at)) as string;
  }

  value(): Place {
    this.space();
    const place: Place = { begin: this.at };
    const first = this.text.charAt(this.at);
    if (first === "{") {
      place.members = new Map();
      this.at += 1;
      for (this.space(); this.text.charAt(this.at) !== "}"; this.space()) {
        const begin = this.at;
        const name = this.string();
        this.space();
        this.at += 1;
        const value = this.value();
        // The position of the name, not of the value.
        value.begin = begin;
        place.members.set(name, value);
        this.comma();
      }
      this.at += 1;
    } else if (first === "[") {
      place.entries = [];
      this.at += 1;
      for (this.space(); this.text.charAt(this.at) !== "]"; this.space()) {
        place.entries.push(this.value());
        this.comma();
      }
      this.at += 1;
    } else if (first === '"') {
      place.value = this.string();
    } else {
      const begin = this.at;
      while (/[^\s,\]}]/.test(this.text.charAt(this.at))) this.at += 1;
      place.value = this.text.slice(begin, this.at);
    }
    return place;
  }

  comma(): void {
    this.space();
    if (this.text.charAt(this.at) === ",") this.at += 1;
  }
}

/** The zero-based position of a node in a JSON text, or of its nearest existing ancestor. */
export function locate(text: string, path: string): number {
  let place = new Reader(text).value();
  for (const { name, keys } of steps(path)) {
    const next = place.members?.get(name) ?? place.members?.get(withoutModule(name));
    if (!next) return place.begin;
    place = next;
    if (keys.length > 0) {
      const entry = place.entries?.find((one) =>
        keys.every(([key, value]) => key === "." ? one.value === value : one.members?.get(key)?.value === value),
      );
      if (!entry) return place.begin;
      place = entry;
    }
  }
  return place.begin;
}

/** The one-based line of a position. */
export const lineOf = (text: string, at: number): number => text.slice(0, at).split("\n").length;

/** The one-based column of a position. */
export const columnOf = (text: string, at: number): number => at - text.lastIndexOf("\n", at - 1);

/** The position of a one-based line and column. */
function positionOf(text: string, line: number, column: number): number {
  let begin = 0;
  for (let number = 1; number < line; number += 1) {
    const end = text.indexOf("\n", begin);
    if (end < 0) break;
    begin = end + 1;
  }
  return Math.min(text.length, begin + column - 1);
}

/** The end of the line of a position. */
export function lineEnd(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
}

/** "line 12, column 5" */
export const placeOf = (text: string, at: number): string => `line ${lineOf(text, at)}, column ${columnOf(text, at)}`;

/** The syntax error of a JSON text, if any. Browsers name its place in their own ways. */
export function broken(text: string): Broken | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return undefined;
    return { at: 0, message: "A configuration must be an object: { ... }." };
  } catch (error) {
    const message = (error as Error).message;
    const position = /position (\d+)/.exec(message);
    const line = /line (\d+) column (\d+)/.exec(message);
    // Without a place, the text ends too early.
    const at = position ? Number(position[1]) : line ? positionOf(text, Number(line[1]), Number(line[2])) : text.trimEnd().length;
    const words = message.replace(/^JSON\.parse: /, "").replace(/ (in JSON )?at (position|line) .*$/, "");
    return { at: Math.min(at, text.length), message: `Not valid JSON: ${words}.` };
  }
}
