// The forms of list entries (policy rules, BFD sessions, virtual routers): one of an entry, above the list.
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useCell } from "../cell";
import type { Members } from "../edits";
import { type FieldFaults, type FieldNode, commitFaults, faultsByField, isAt } from "../field_faults";
import { type Draft, type Saving, useDraft, useSave } from "../form_state";
import type { Review } from "../leaves";
import { Card, type Column, Faults, Notice, Table } from "../parts";
import { go, link } from "../route";

/** A kind of list entries, by its key, its entry, the values of its form, and its fields. */
export interface EntryKind<K, E, W, F extends string> {
  /** The tab of the editor. */
  tab: string;
  /** What one is: "BFD session". */
  name: string;
  /** A certain one: "BFD session with 192.0.2.1 on lan". */
  inWords: (key: K) => string;
  /** The same on a button: "192.0.2.1". */
  inShort: (key: K) => string;
  /** The segments of the URL that name an entry. */
  toUrl: (key: K) => string[];
  /** The key in the segments of a URL; `undefined`: there is none. */
  fromUrl: (segments: string[]) => K | undefined;
  /** The data path of an entry. */
  path: (key: K) => string;
  find: (whole: Members, key: K) => E | undefined;
  /** The form of an entry; without one, that of a new one. */
  wishOf: (entry?: E) => W;
  /** The key that a form describes. */
  wishKey: (wish: W, whole: Members) => K;
  /** The nodes of the fields. */
  nodes: (wish: W) => FieldNode[];
  review: (wish: W, whole: Members, before?: K) => Review<F>;
  put: (whole: Members, wish: W, before?: K) => void;
  remove: (whole: Members, key: K) => void;
}

/** What the fields of a form need. */
export interface FormPart<W, F extends string> {
  whole: Members;
  wish: W;
  set: (part: Partial<W>) => void;
  wrong: (field: F) => string | undefined;
  /** The value of a field, and its error. */
  field: <N extends keyof W & F>(name: N) => { name: N; value: W[N]; set: (value: W[N]) => void; wrong: string | undefined };
}

/** The errors of the router in the form of an entry: of the last save, and of a refused commit at `path`. */
function useFaults(saving: Saving, nodes: FieldNode[], path: string | undefined): FieldFaults {
  const refused = useCell(commitFaults).filter((fault) => path !== undefined && isAt(fault, path));
  const faults = saving.failure?.faults ?? [];
  return faultsByField([...faults, ...refused.filter((one) => !faults.some((other) => other.path === one.path && other.message === one.message))], nodes);
}

interface FormProps<K, E, W, F extends string> {
  kind: EntryKind<K, E, W, F>;
  whole: Members;
  fields: (part: FormPart<W, F>) => ComponentChildren;
}

/** The form of the entry `before`, or of a new one. */
function EntryForm<K, E, W, F extends string>({ kind, whole, before, saving, fields }: FormProps<K, E, W, F> & { before?: K; saving: Saving }): JSX.Element {
  const path = before === undefined ? undefined : kind.path(before);
  const draft = useDraft(path ?? "", kind.wishOf(before === undefined ? undefined : kind.find(whole, before)));
  const wish = draft.form;
  const complaints = kind.review(wish, whole, before);
  const found = useFaults(saving, kind.nodes(wish), path);
  const form = useRef<HTMLFormElement>(null);
  const first = (place: string): void => form.current?.querySelector<HTMLElement>(place)?.focus();
  // The form opens above a list, which may be long. The focus moves before anyone can type.
  useLayoutEffect(() => first("input, select"), [path]);
  useLayoutEffect(() => {
    if (found.at.size > 0) first("[aria-invalid=true], fieldset[aria-describedby] :is(input, select, button)");
  }, [found.at.size]);
  const back = link("configuration", [kind.tab]);
  const act = async (key: K, done: string, work: (desired: Members) => void): Promise<void> => {
    if (await saving.change(`The ${kind.inWords(key)} is ${done} the candidate.`, work)) go(back);
  };
  const save = (event: Event): void => {
    event.preventDefault();
    void act(kind.wishKey(wish, whole), "saved in", (desired) => kind.put(desired, wish, before));
  };
  const set = (part: Partial<W>): void => draft.set({ ...wish, ...part });
  // The error of a field: that of the typed text, else that of the router.
  const wrong = (field: F): string | undefined => complaints.at[field] ?? found.at.get(field);
  return (
    <Card title={before === undefined ? `New ${kind.name}` : `Change ${kind.inWords(before)}`} note="in the candidate" wide>
      <form class="column" ref={form} onSubmit={save}>
        {fields({ whole, wish, set, wrong, field: (name) => ({ name, value: wish[name], set: (value) => draft.set({ ...wish, [name]: value }), wrong: wrong(name) }) })}
        {complaints.missing && <p class="note">{complaints.missing}</p>}
        <Stale draft={draft} what="This" />
        {found.at.size > 0 && (
          <Notice mood="bad">
            {found.at.size === 1 ? "The router refused a value: see its field above." : `The router refused ${found.at.size} values: see their fields above.`}
          </Notice>
        )}
        <span class="buttons">
          <button class="main" disabled={!complaints.isClean || (before !== undefined && !draft.isChanged)}>
            {before === undefined ? "Create in the candidate" : "Save to candidate"}
          </button>
          <a class="button" href={back}>
            Close
          </a>
          {before !== undefined && (
            <button type="button" onClick={() => void act(before, "removed from", (desired) => kind.remove(desired, before))}>
              Remove {kind.inShort(before)}
            </button>
          )}
        </span>
      </form>
      <Faults faults={found.others} />
    </Card>
  );
}

/** The form of the entry that the URL names, or of a new one, above a list. */
export function EntryForms<K, E, W, F extends string>(props: FormProps<K, E, W, F> & { segments: string[]; list: (saving: Saving) => ComponentChildren }): JSX.Element {
  const { kind, whole, segments } = props;
  const saving = useSave(whole, segments.join(" "));
  const key = kind.fromUrl(segments);
  const isNew = segments.length === 1 && segments[0] === "new";
  const isThere = key !== undefined && kind.find(whole, key) !== undefined;
  return (
    <>
      {isNew && <EntryForm key="new" {...props} saving={saving} />}
      {key !== undefined && isThere && <EntryForm key={kind.path(key)} {...props} before={key} saving={saving} />}
      {key !== undefined && !isThere && (
        <Notice mood="warn">
          The candidate has no {kind.inWords(key)}. <a href={link("configuration", [kind.tab])}>Go to the list.</a>
        </Notice>
      )}
      <Saved words={saving.saved} />
      {!isNew && !isThere && <Faults faults={saving.failure?.faults ?? []} />}
      {props.list(saving)}
    </>
  );
}

/** The link to the form of an entry. */
export const linkTo = <K, E, W, F extends string>(kind: EntryKind<K, E, W, F>, key: K): string => link("configuration", [kind.tab, ...kind.toUrl(key)]);

/** The button that opens the form of an entry. */
export const Edit = <K, E, W, F extends string>({ kind, of }: { kind: EntryKind<K, E, W, F>; of: K }): JSX.Element => (
  <a class="button" href={linkTo(kind, of)} aria-label={`Edit the ${kind.inWords(of)}`}>
    Edit
  </a>
);

/** The button that opens the form of a new entry. */
export const New = ({ kind }: { kind: { tab: string; name: string } }): JSX.Element => (
  <a class="button" href={link("configuration", [kind.tab, "new"])}>
    New {kind.name}
  </a>
);

/** The forms above a table of all entries. */
export function EntryTable<K, E extends { key: K }, W, F extends string>(
  props: FormProps<K, E, W, F> & { segments: string[]; title: string; note: string; columns: Column<E>[]; rows: E[] },
): JSX.Element {
  const { kind, title } = props;
  const edit: Column<E> = { name: "", right: true, show: ({ key }) => <Edit kind={kind} of={key} /> };
  const list = (): JSX.Element => (
    <Card title={title} note={props.note} wide tools={<New kind={kind} />}>
      <Table caption={title} columns={[...props.columns, edit]} rows={props.rows} mark={({ key }) => kind.path(key)} none={`The candidate has no ${kind.name}.`} />
    </Card>
  );
  return <EntryForms {...props} list={list} />;
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
