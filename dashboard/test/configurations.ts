// What the tests of forms have in common.
import { copy } from "../src/candidate";
import type { Members } from "../src/edits";
import type { Review } from "../src/leaves";

/** A changed copy of a configuration. */
export function changed(old: Members, work: (desired: Members) => void): Members {
  const desired = copy(old);
  work(desired);
  return desired;
}

/** The errors of a form. */
export const errorsOf = (found: Review<string>): string[] => [...Object.values(found.at), found.missing].filter((text): text is string => Boolean(text));
