// What the forms of the candidate have in common: values that are edited, and how they are saved.
import { useEffect, useState } from "preact/hooks";
import { copy, save } from "./candidate";
import type { Members } from "./edits";
import type { Failure } from "./server";

export interface Saving {
  failure: Failure | undefined;
  /** What was saved last, in words. */
  saved: string;
  /** Saves what `work` does with a copy of the candidate; returns whether the router took it. */
  change: (words: string, work: (desired: Members) => void) => Promise<boolean>;
}

/**
 * Changes of the candidate by the form of `name`; "": by a list. A form does not show the messages of another one, but
 * the list shows what a form saved.
 */
export function useSave(whole: Members, name: string): Saving {
  const [failure, setFailure] = useState<Failure>();
  const [saved, setSaved] = useState("");
  useEffect(() => {
    setFailure(undefined);
    if (name !== "") setSaved("");
  }, [name]);
  const change = async (words: string, work: (desired: Members) => void): Promise<boolean> => {
    const desired = copy(whole);
    work(desired);
    setFailure(undefined);
    setSaved("");
    try {
      await save(whole, desired);
      setSaved(words);
      return true;
    } catch (error) {
      setFailure(error as Failure);
      return false;
    }
  };
  return { failure, saved, change };
}

export interface Draft<T> {
  form: T;
  set: (form: T) => void;
  /** Whether the form differs from the candidate. */
  isChanged: boolean;
  /** Whether another user changed in the candidate what the form edits. */
  isStale: boolean;
  /** Takes the values of the candidate. */
  reset: () => void;
}

/** The values of the form of `name`: those of the candidate, `before`, until they are edited. */
export function useDraft<T>(name: string, before: T): Draft<T> {
  const mark = JSON.stringify(before);
  const [form, set] = useState<T>(before);
  // What the form began with: `mark` differs from it when another user changed the candidate.
  const [base, setBase] = useState({ name, mark });
  const isTouched = base.name === name && JSON.stringify(form) !== base.mark;
  const reset = (): void => {
    set(() => before);
    setBase({ name, mark });
  };
  useEffect(() => {
    // An edited form stays as it is.
    if (!isTouched || JSON.stringify(form) === mark) reset();
  }, [name, mark]);
  return { form, set: (next) => set(() => next), isChanged: JSON.stringify(form) !== mark, isStale: isTouched && base.mark !== mark, reset };
}
