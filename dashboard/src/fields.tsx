// Fields of forms, each with its label, its hint and its error.
import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";
import { Field, typed } from "./parts";

interface Labels {
  /** The name of the control, by which tests find it. */
  name: string;
  label: string;
  hint?: string | undefined;
  /** The error; "": none. */
  wrong?: string | undefined;
}

/** What makes a control say its error. */
const invalid = (wrong: string | undefined, id: string): { "aria-invalid"?: boolean; "aria-describedby"?: string } => (wrong ? { "aria-invalid": true, "aria-describedby": id } : {});

/** The error of a field. */
export const Wrong = ({ id, wrong }: { id?: string; wrong: string | undefined }): JSX.Element | null =>
  wrong ? (
    <small {...(id ? { id } : {})} class="wrong">
      {wrong}
    </small>
  ) : null;

const Labelled = ({ label, hint, wrong, id, children }: Labels & { id: string; children: ComponentChildren }): JSX.Element => (
  <div class="held">
    <Field label={label} {...(hint ? { hint } : {})}>
      {children}
    </Field>
    <Wrong id={id} wrong={wrong} />
  </div>
);

/** A text field; `options` are suggestions. */
export function TextField(props: Labels & { value: string; set: (text: string) => void; isMono?: boolean; isNumber?: boolean; options?: string[] }): JSX.Element {
  const id = useId();
  return (
    <Labelled {...props} id={`${id}-wrong`}>
      <input
        name={props.name}
        {...(props.isMono ? { class: "mono" } : {})}
        value={props.value}
        onInput={(event) => props.set(typed(event))}
        spellcheck={false}
        autocapitalize="none"
        autocomplete="off"
        {...(props.isNumber ? { inputMode: "decimal" as const } : {})}
        {...(props.options ? { type: "text" as const, list: `${id}-options` } : {})}
        {...invalid(props.wrong, `${id}-wrong`)}
      />
      {props.options && (
        <datalist id={`${id}-options`}>
          {props.options.map((one) => (
            <option value={one} />
          ))}
        </datalist>
      )}
    </Labelled>
  );
}

/** A choice of values with their words. A current value that is none of them stays. */
export function ChoiceField(props: Labels & { value: string; set: (value: string) => void; choices: [string, string][] }): JSX.Element {
  const id = useId();
  return (
    <Labelled {...props} id={`${id}-wrong`}>
      <select name={props.name} value={props.value} onChange={(event) => props.set(typed(event))} {...invalid(props.wrong, `${id}-wrong`)}>
        {!props.choices.some(([value]) => value === props.value) && <option value={props.value}>{props.value === "" ? "choose …" : `${props.value} (not there)`}</option>}
        {props.choices.map(([value, words]) => (
          <option value={value}>{words}</option>
        ))}
      </select>
    </Labelled>
  );
}

export function CheckField(props: Labels & { value: boolean; set: (value: boolean) => void }): JSX.Element {
  const id = useId();
  return (
    <div class="held">
      <label class="check">
        <input type="checkbox" name={props.name} checked={props.value} onChange={(event) => props.set(event.currentTarget.checked)} {...invalid(props.wrong, `${id}-wrong`)} /> {props.label}
      </label>
      <Wrong id={`${id}-wrong`} wrong={props.wrong} />
    </div>
  );
}

/** A list of rows that are added and removed. */
export function Rows<T>(props: {
  legend: string;
  rows: T[];
  set: (rows: T[]) => void;
  /** The row that "add" adds, and the words of its button. */
  empty: T;
  add: string;
  /** The words for a row in the name of its button. */
  nameOf: (row: T) => string;
  show: (row: T, index: number, change: (row: T) => void, invalid: { "aria-invalid"?: boolean; "aria-describedby"?: string }) => ComponentChildren;
  wrongAt: (index: number) => string | undefined;
  /** The error of the list. */
  wrong?: string | undefined;
  hint?: string;
}): JSX.Element {
  const id = useId();
  return (
    <fieldset {...(props.wrong ? { "aria-describedby": `${id}-wrong` } : {})}>
      <legend>{props.legend}</legend>
      {props.hint && <small>{props.hint}</small>}
      {props.rows.map((row, index) => (
        <div class="address">
          {props.show(row, index, (next) => props.set(props.rows.map((old, other) => (other === index ? next : old))), invalid(props.wrongAt(index), `${id}-${index}`))}
          <button type="button" aria-label={`Remove ${props.nameOf(row) || "this row"}`} onClick={() => props.set(props.rows.filter((_, other) => other !== index))}>
            Remove
          </button>
          <Wrong id={`${id}-${index}`} wrong={props.wrongAt(index)} />
        </div>
      ))}
      <Wrong id={`${id}-wrong`} wrong={props.wrong} />
      <button type="button" onClick={() => props.set([...props.rows, props.empty])}>
        {props.add}
      </button>
    </fieldset>
  );
}
