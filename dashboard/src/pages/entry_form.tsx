// The frame of the forms of list entries (policy rules, BFD sessions, virtual routers): errors, buttons and messages.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useCell } from "../cell";
import { type FieldNode, type FieldFaults, commitFaults, isAt, faultsByField } from "../field_faults";
import type { Draft, Saving } from "../form_state";
import type { Review } from "../leaves";
import { Card, Faults, Notice } from "../parts";
import { go, link } from "../route";

/** The errors of the router in the form of an entry: of the last save, and of a refused commit at `path`. */
export function useFaults(saving: Saving, nodes: FieldNode[], path: string | undefined): FieldFaults {
  const refused = useCell(commitFaults).filter((fault) => path !== undefined && isAt(fault, path));
  const faults = saving.failure?.faults ?? [];
  return faultsByField([...faults, ...refused.filter((one) => !faults.some((other) => other.path === one.path && other.message === one.message))], nodes);
}

/** The error of a field: that of the typed text, else that of the router. */
export const wrongAt = <F extends string>(complaints: Review<F>, found: FieldFaults, field: F): string | undefined => complaints.at[field] ?? found.at.get(field);

export function EntryForm<T, F extends string>(props: {
  title: string;
  /** The tab of the editor, to which the form leads back. */
  tab: string;
  draft: Draft<T>;
  complaints: Review<F>;
  found: FieldFaults;
  isNew: boolean;
  save: () => Promise<boolean>;
  remove: () => Promise<boolean>;
  /** What is removed. */
  what: string;
  children: ComponentChildren;
}): JSX.Element {
  const { draft, complaints, found } = props;
  const form = useRef<HTMLFormElement>(null);
  const back = link("configuration", [props.tab]);
  const first = (place: string): void => form.current?.querySelector<HTMLElement>(place)?.focus();
  // The form opens above a list, which may be long.
  useEffect(() => first("input, select"), [props.title]);
  useEffect(() => {
    if (found.at.size > 0) first("[aria-invalid=true], fieldset[aria-describedby] :is(input, select, button)");
  }, [found.at.size]);
  const act = async (work: () => Promise<boolean>): Promise<void> => {
    if (await work()) go(back);
  };
  return (
    <Card title={props.title} note="in the candidate" wide>
      <form class="column" ref={form} onSubmit={(event) => (event.preventDefault(), void act(props.save))}>
        {props.children}
        {complaints.missing && <p class="note">{complaints.missing}</p>}
        <Stale draft={draft} what="This" />
        {found.at.size > 0 && (
          <Notice mood="bad">
            {found.at.size === 1 ? "The router refused a value: see its field above." : `The router refused ${found.at.size} values: see their fields above.`}
          </Notice>
        )}
        <span class="buttons">
          <button class="main" disabled={!complaints.isClean || (!props.isNew && !draft.isChanged)}>
            {props.isNew ? "Create in the candidate" : "Save to candidate"}
          </button>
          <a class="button" href={back}>
            Close
          </a>
          {!props.isNew && (
            <button type="button" onClick={() => void act(props.remove)}>
              Remove {props.what}
            </button>
          )}
        </span>
      </form>
      <Faults faults={found.others} />
    </Card>
  );
}

/** That another user changed in the candidate what a form edits. */
export const Stale = ({ draft, what }: { draft: Pick<Draft<unknown>, "isStale" | "reset">; what: string }): JSX.Element | null =>
  draft.isStale ? (
    <Notice mood="warn" live>
      {what} was changed in the candidate meanwhile. Saving replaces what the form has.{" "}
      <button type="button" class="quiet" onClick={draft.reset}>
        Reload the form
      </button>
    </Notice>
  ) : null;

/** What was saved last, with the link to the commit; "": nothing. */
export const Saved = ({ words }: { words: string }): JSX.Element | null =>
  words ? (
    <Notice mood="good" live>
      {words} <a href={link("configuration", ["commit"])}>Review the changes and commit.</a>
    </Notice>
  ) : null;

/** An entry that is not in the candidate. */
export const NotThere = ({ words, tab }: { words: string; tab: string }): JSX.Element => (
  <Notice mood="warn">
    The candidate has no {words}. <a href={link("configuration", [tab])}>Go to the list.</a>
  </Notice>
);
