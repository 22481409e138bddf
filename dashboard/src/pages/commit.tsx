// The changes in the candidate, and the commit.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { load } from "../candidate";
import { useCell } from "../cell";
import { Changes } from "../changes";
import { look } from "../events";
import { commitFaults } from "../field_faults";
import { count } from "../figures";
import { Card, Faults, Field, Notice, Waiting, typed } from "../parts";
import { formLink } from "../form_links";
import { usePoll } from "../poll";
import { type Failure, call, routerName, user } from "../server";
import type { Change } from "../yang";

const WITHIN: [number, string][] = [
  [0, "permanently"],
  [60, "rolled back after 1 minute unless confirmed"],
  [300, "rolled back after 5 minutes unless confirmed"],
  [1_800, "rolled back after 30 minutes unless confirmed"],
];

/** Part of the error for a commit that would cut off its author. */
const CUTS_OFF = "cut off your own access";

/** The link to the form of a node with an error. */
function toForm(path: string): JSX.Element | undefined {
  const to = formLink(path);
  return to === undefined ? undefined : <a href={to}>Edit it in its form</a>;
}

interface Done {
  number?: string;
  changes?: number;
  warning?: string[];
  "confirm-by"?: string;
  confirmed?: string;
}

export function CommitForm({ turn }: { turn: number }): JSX.Element {
  const [comment, setComment] = useState("");
  const [within, setWithin] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<Failure>();
  const [done, setDone] = useState<Done>();
  const { data, failure, again } = usePoll(() => call<{ change?: Change[] }>("stoa-datastore:compare"), 0, [turn]);
  const list = data?.change ?? [];
  const router = routerName(useCell(user));
  const act = async (work: () => Promise<Done | undefined>): Promise<void> => {
    setBusy(true);
    setWrong(undefined);
    setDone(undefined);
    commitFaults.set([]);
    let refused: Failure | undefined;
    try {
      setDone(await work());
    } catch (error) {
      refused = error as Failure;
      setWrong(refused);
    }
    setBusy(false);
    again();
    await Promise.all([look(), load()]).catch(() => undefined);
    // The forms show them at their fields, until the candidate changes.
    if (refused) commitFaults.set(refused.faults);
  };
  const commit = (isForced: boolean): void =>
    void act(async () => {
      const input = { ...(comment && { comment }), ...(within > 0 && { "confirm-within": within }), ...(isForced && { force: true }) };
      const made = await call<Done>("stoa-datastore:commit", input);
      setComment("");
      return made;
    });
  const discard = (): void =>
    void act(async () => {
      await call("stoa-datastore:discard");
      return undefined;
    });
  return (
    <>
      {done && (
        <Notice mood="good" live>
          Committed{done.number ? ` as number ${done.number}` : ""}: {count(done.changes ?? 0)} changes.
          {done["confirm-by"] ? " Confirm it above before the time expires." : ""}
          {done.confirmed ? ` This confirmed the commit of ${done.confirmed}, too.` : ""}
          {(done.warning ?? []).map((warning) => (
            <p>{warning}</p>
          ))}
        </Notice>
      )}
      <Faults faults={wrong?.faults ?? []} locate={toForm} />
      {wrong?.faults.some((fault) => fault.message.includes(CUTS_OFF)) && (
        <Notice mood="warn">
          Choose “rolled back … unless confirmed” below: without your confirmation, the router rolls back by itself.{" "}
          <button onClick={() => commit(true)}>Commit to {router} permanently (force)</button>
        </Notice>
      )}
      <Card title="Changes in the candidate" wide>
        <Waiting failure={failure} data={data} />
        {data && (list.length === 0 ? <p class="none">No changes: the candidate equals the running configuration.</p> : <Changes list={list} />)}
        <form class="row" onSubmit={(event) => (event.preventDefault(), commit(false))}>
          <Field label="Comment for the history">
            <input value={comment} onInput={(event) => setComment(typed(event))} maxLength={1024} />
          </Field>
          <Field label="Apply">
            <select value={within} onChange={(event) => setWithin(Number(typed(event)))}>
              {WITHIN.map(([seconds, words]) => (
                <option value={seconds}>{words}</option>
              ))}
            </select>
          </Field>
          <span class="buttons">
            <button class="main" disabled={isBusy || list.length === 0}>
              {isBusy ? "Committing …" : `Commit to ${router}`}
            </button>
            <button type="button" disabled={isBusy || list.length === 0} onClick={discard}>
              Discard changes
            </button>
          </span>
        </form>
      </Card>
    </>
  );
}
