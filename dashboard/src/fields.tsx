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

/** The attributes of a control with an error. */
interface Invalid {
  "aria-invalid"?: boolean;
  "aria-describedby"?: string;
}

const invalid = (wrong: string | undefined, id: string): Invalid => (wrong ? { "aria-invalid": true, "aria-describedby": id } : {});

/** A control without its label. */
export interface Control<V extends string> extends Invalid {
  name: string;
  value: V;
  set: (value: V) => void;
  "aria-label"?: string;
}

/** The values and words of a choice of names. */
export const named = (names: string[]): [string, string][] => names.map((name) => [name, name]);

/** A text that the browser neither corrects nor completes. */
export const Input = ({ set, isMono, ...rest }: Control<string> & { isMono?: boolean | undefined; inputMode?: "decimal" | undefined; placeholder?: string | undefined; list?: string }): JSX.Element => (
  <input {...rest} type="text" class={isMono ? "mono" : undefined} onInput={(event) => set(typed(event))} spellcheck={false} autocapitalize="none" autocomplete="off" />
);

/** A choice of values with their words. A current value that is none of them stays. */
export const Select = <V extends string>({ value, set, choices, ...rest }: Control<V> & { choices: [V, string][] }): JSX.Element => (
  <select {...rest} value={value} onChange={(event) => set(typed(event) as V)}>
    {!choices.some(([known]) => known === value) && <option value={value}>{value === "" ? "choose …" : `${value} (not there)`}</option>}
    {choices.map(([known, words]) => (
      <option value={known}>{words}</option>
    ))}
  </select>
);

/** The error of a field. */
const Wrong = ({ id, wrong }: { id?: string; wrong: string | undefined }): JSX.Element | null =>
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
export function TextField(
  props: Labels & { value: string; set: (text: string) => void; isMono?: boolean; isNumber?: boolean; placeholder?: string; options?: string[] },
): JSX.Element {
  const id = useId();
  return (
    <Labelled {...props} id={`${id}-wrong`}>
      <Input
        name={props.name}
        value={props.value}
        set={props.set}
        isMono={props.isMono}
        inputMode={props.isNumber ? "decimal" : undefined}
        placeholder={props.placeholder}
        {...(props.options ? { list: `${id}-options` } : {})}
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

export function ChoiceField<V extends string>(props: Labels & { value: V; set: (value: V) => void; choices: [V, string][] }): JSX.Element {
  const id = useId();
  return (
    <Labelled {...props} id={`${id}-wrong`}>
      <Select name={props.name} value={props.value} set={props.set} choices={props.choices} {...invalid(props.wrong, `${id}-wrong`)} />
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
  show: (row: T, index: number, change: (row: T) => void, invalid: Invalid) => ComponentChildren;
  wrongAt: (index: number) => string | undefined;
  /** The error of the list. */
  wrong?: string | undefined;
  hint?: string;
  /** Other fields, below the rows. */
  children?: ComponentChildren;
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
      {props.children}
    </fieldset>
  );
}
