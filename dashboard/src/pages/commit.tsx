// What the candidate would change, and the commit.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { load } from "../candidate";
import { Changes } from "../changes";
import { look } from "../events";
import { count } from "../figures";
import { Card, Faults, Field, Notice, Waiting, typed } from "../parts";
import { usePoll } from "../poll";
import { type Failure, call } from "../server";
import type { Change } from "../yang";

const WITHIN: [number, string][] = [
  [0, "for good"],
  [60, "undone after 1 minute unless confirmed"],
  [300, "undone after 5 minutes unless confirmed"],
  [1_800, "undone after 30 minutes unless confirmed"],
];

/** What the router says of a commit after which the one who made it could not come back. */
const CUTS_OFF = "cut off your own access";

interface Done {
  number?: string;
  changes?: number;
  remark?: string[];
  "confirm-by"?: string;
}

export function CommitForm({ turn }: { turn: number }): JSX.Element {
  const [comment, setComment] = useState("");
  const [within, setWithin] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<Failure>();
  const [done, setDone] = useState<Done>();
  const { data, failure, again } = usePoll(() => call<{ change?: Change[] }>("stoa-datastore:compare"), 0, [turn]);
  const list = data?.change ?? [];
  const act = async (work: () => Promise<Done | undefined>): Promise<void> => {
    setBusy(true);
    setWrong(undefined);
    setDone(undefined);
    try {
      setDone(await work());
    } catch (error) {
      setWrong(error as Failure);
    }
    setBusy(false);
    again();
    await Promise.all([look(), load()]).catch(() => undefined);
  };
  const commit = (isAnyway: boolean): void =>
    void act(async () => {
      const input = { ...(comment && { comment }), ...(within > 0 && { "confirm-within": within }), ...(isAnyway && { force: true }) };
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
          Committed{done.number ? ` as number ${done.number}` : ""}: {count(done.changes ?? 0)} nodes are different now.
          {done["confirm-by"] ? " Confirm it above before the time is over." : ""}
          {(done.remark ?? []).map((remark) => (
            <p>{remark}</p>
          ))}
        </Notice>
      )}
      <Faults faults={wrong?.faults ?? []} />
      {wrong?.faults.some((fault) => fault.message.includes(CUTS_OFF)) && (
        <Notice mood="warn">
          Choose “undone … unless confirmed” below: it comes back by itself when you cannot confirm it.{" "}
          <button onClick={() => commit(true)}>Commit for good all the same</button>
        </Notice>
      )}
      <Card title="What the candidate changes" wide>
        <Waiting failure={failure} data={data} />
        {data && (list.length === 0 ? <p class="none">Nothing: the candidate is what is in force.</p> : <Changes list={list} />)}
        <form class="row" onSubmit={(event) => (event.preventDefault(), commit(false))}>
          <Field label="Comment, for the history">
            <input value={comment} onInput={(event) => setComment(typed(event))} maxLength={1024} />
          </Field>
          <Field label="In force">
            <select value={within} onChange={(event) => setWithin(Number(typed(event)))}>
              {WITHIN.map(([seconds, words]) => (
                <option value={seconds}>{words}</option>
              ))}
            </select>
          </Field>
          <span class="buttons">
            <button class="main" disabled={isBusy || list.length === 0}>
              {isBusy ? "Committing …" : "Commit"}
            </button>
            <button type="button" disabled={isBusy || list.length === 0} onClick={discard}>
              Discard the changes
            </button>
          </span>
        </form>
      </Card>
    </>
  );
}
