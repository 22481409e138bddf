// Components that all pages use.
import type { ComponentChildren, JSX } from "preact";
import type { Failure, Fault } from "./server";

/** The severity of a state, shown by colour and by sign. */
export type Mood = "good" | "warn" | "bad" | "idle";

const SIGNS: Record<Mood, string> = { good: "●", warn: "▲", bad: "✕", idle: "○" };

export const State = ({ mood, children }: { mood: Mood; children: ComponentChildren }): JSX.Element => (
  <span class={`state ${mood}`}>
    <span class="sign" aria-hidden="true">
      {SIGNS[mood]}
    </span>
    <span>{children}</span>
  </span>
);

/** A card with a heading. */
export const Card = (props: { title: string; note?: string; children: ComponentChildren; wide?: boolean; tools?: ComponentChildren }): JSX.Element => (
  <section class={props.wide ? "card wide" : "card"}>
    <header>
      <h2>{props.title}</h2>
      {props.note && <span class="note">{props.note}</span>}
      {props.tools && <span class="tools">{props.tools}</span>}
    </header>
    {props.children}
  </section>
);

/** A value with its name. */
export const Figure = (props: { name: string; value: string; below?: string; mood?: Mood }): JSX.Element => (
  <div class={`figure ${props.mood ?? ""}`}>
    <dt>{props.name}</dt>
    <dd>
      {props.value}
      {props.below && <small>{props.below}</small>}
    </dd>
  </div>
);

/** A bar from 0 to 1 with a text: what is used of a limit, or with `isPart` a part of a whole, which may be all. */
export const Bar = (props: { share: number; words: string; label: string; isPart?: boolean; isBelow?: boolean }): JSX.Element => {
  const { share, words, label, isPart, isBelow } = props;
  const value = Math.min(1, Math.max(0, share));
  const mood = isPart ? "good" : value >= 0.95 ? "bad" : value >= 0.8 ? "warn" : "good";
  return (
    <span class={isBelow ? "bar below" : "bar"}>
      <svg viewBox="0 0 100 8" preserveAspectRatio="none" class={mood} role="img" aria-label={`${label}: ${words}`}>
        <rect class="track" width="100" height="8" />
        <rect class="fill" width={value * 100} height="8" />
      </svg>
      <span>{words}</span>
    </span>
  );
};

/** A message for the user. */
export const Notice = ({ mood, children, live }: { mood: Mood; children: ComponentChildren; live?: boolean }): JSX.Element => (
  <div class={`notice ${mood}`} role={mood === "bad" ? "alert" : live ? "status" : undefined}>
    <span class="sign" aria-hidden="true">
      {SIGNS[mood]}
    </span>
    <div>{children}</div>
  </div>
);

/** Stands in place of a page that has nothing to show, and tells how to begin. */
export const Empty = ({ title, children }: { title: string; children: ComponentChildren }): JSX.Element => (
  <section class="card empty">
    <h2>{title}</h2>
    {children}
  </section>
);

/** The errors of a request, each with its path. */
export const Faults = ({ faults, locate }: { faults: Fault[]; locate?: (path: string) => ComponentChildren }): JSX.Element | null =>
  faults.length === 0 ? null : (
    <Notice mood="bad">
      <ul class="faults">
        {faults.map((fault) => (
          <li>
            {fault.message}
            {fault.path !== "" && (
              <div class="where">
                at <code>{fault.path}</code> {locate?.(fault.path)}
              </div>
            )}
          </li>
        ))}
      </ul>
    </Notice>
  );

/** Shown while data is loading, or with an error beside the last data. */
export const Waiting = ({ failure, data }: { failure: Failure | undefined; data: unknown }): JSX.Element | null => {
  if (failure) {
    return (
      <Notice mood={failure.status === 0 ? "warn" : "bad"} live>
        {failure.message || "This page failed to load its data and retries."}
        {data !== undefined && " The page shows the last known data."}
      </Notice>
    );
  }
  return data === undefined ? (
    <p class="loading" role="status">
      Loading …
    </p>
  ) : null;
};

export interface Column<T> {
  name: string;
  /** Numbers are right-aligned. */
  right?: boolean;
  /** Hidden on narrow screens. */
  extra?: boolean;
  /** Has sentences, and needs some width. */
  text?: boolean;
  /** A CSS width. If a column has one, no column moves with its contents: where rows come and go. */
  width?: string;
  show: (row: T) => ComponentChildren;
}

/** A table with a caption for screen readers. */
export function Table<T>(props: {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  mark: (row: T) => string;
  none: ComponentChildren;
  /** Rows that stand back. */
  isFaint?: (row: T) => boolean;
  /** Scrolls by itself when it is long. */
  isShort?: boolean;
}): JSX.Element {
  const classes = (column: Column<T>): string => `${column.right ? "right" : ""} ${column.extra ? "extra" : ""} ${column.text ? "text" : ""}`;
  return (
    <div class={props.isShort ? "scroll short" : "scroll"} tabIndex={0} role="region" aria-label={props.caption}>
      <table class={props.columns.some((column) => column.width) ? "fixed" : undefined}>
        <caption class="unseen">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th scope="col" class={classes(column)} style={column.width ? { width: column.width } : undefined}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.mark(row)} class={props.isFaint?.(row) ? "faint" : undefined}>
              {props.columns.map((column, at) =>
                at === 0 ? (
                  <th scope="row" class={classes(column)}>
                    {column.show(row)}
                  </th>
                ) : (
                  <td class={classes(column)}>{column.show(row)}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {props.rows.length === 0 && <div class="none">{props.none}</div>}
    </div>
  );
}

/** Texts below each other. */
export const Stack = ({ texts, isMono }: { texts: string[]; isMono?: boolean }): JSX.Element => (
  <span class={isMono ? "stack mono" : "stack"}>
    {texts.map((text) => (
      <span>{text}</span>
    ))}
  </span>
);

/** A field with its label. */
export const Field = (props: { label: string; hint?: string; children: ComponentChildren }): JSX.Element => (
  <label class="field">
    <span>{props.label}</span>
    {props.children}
    {props.hint && <small>{props.hint}</small>}
  </label>
);

/** The text of the input of an event. */
export const typed = (event: Event): string =>
  (event.currentTarget as HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement).value;
