// Leaves of the configuration that forms write.
import { type Json, type Members, isSame } from "./edits";

/** Sets a leaf; "" and `undefined` delete it. */
export function putLeaf(members: Members, name: string, value: Json | undefined): void {
  if (value === undefined || value === "") delete members[name];
  else members[name] = value;
}

/** Sets a leaf with a default if a form changed it from `before`. The default is not written. */
export function putChanged(members: Members, name: string, value: Json, before: Json, usual: Json): void {
  if (value !== before) putLeaf(members, name, value === usual ? undefined : value);
}

/** Deletes a container without members. */
export function dropEmpty(members: Members, name: string): void {
  if (isSame(members[name], {})) delete members[name];
}

/** The text of a leaf; "": it is absent. */
export const textOf = (members: Members | undefined, name: string): string => String(members?.[name] ?? "");

/** The names of the entries of a list. */
export const namesOf = (list: Members[]): string[] => list.map((one) => textOf(one, "name"));

/** The number of a text; "": none. */
export const numberOf = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));

/** Collects the errors of a form: a required field that is empty, and fields with a wrong text. */
export class Review<F extends string> {
  /** The first error of each field. */
  at: Partial<Record<F, string>> = {};
  /** The first required field that is empty; "": none is. */
  missing = "";

  /** `words`: why the field is wrong; "": it is not. */
  check(field: F, words: string): void {
    if (words !== "") this.at[field] ??= words;
  }

  /** A text that is either empty or right. */
  checkText(field: F, text: string, isRight: boolean, words: string): void {
    if (text.trim() !== "" && !isRight) this.check(field, words);
  }

  /** A required text. */
  require(text: string, words: string): void {
    if (text.trim() === "") this.missing ||= words;
  }

  get isClean(): boolean {
    return this.missing === "" && Object.keys(this.at).length === 0;
  }
}
