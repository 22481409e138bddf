// The history of commits: author, changes and rollback.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useCell } from "../cell";
import { Changes } from "../changes";
import { changes } from "../events";
import { moment } from "../figures";
import { Card, Faults, Waiting } from "../parts";
import { usePoll } from "../poll";
import { go, link } from "../route";
import { type Failure, call } from "../server";
import type { Change, Entry } from "../yang";

function Difference({ old, number }: { old: string; number: string }): JSX.Element {
  const { data, failure } = usePoll(
    () => call<{ change?: Change[] }>("stoa-datastore:compare", { "old-number": old, "new-number": number }),
    0,
    [old, number],
  );
  if (!data) return <Waiting failure={failure} data={data} />;
  return data.change?.length ? <Changes list={data.change} /> : <p class="none">No changes that you may read.</p>;
}

export function History(): JSX.Element {
  const turn = useCell(changes);
  const [open, setOpen] = useState("");
  const [wrong, setWrong] = useState<Failure>();
  const { data, failure } = usePoll(() => call<{ entry?: Entry[] }>("stoa-datastore:history"), 0, [turn]);
  if (!data) return <Waiting failure={failure} data={data} />;
  const list = data.entry ?? [];
  const back = async (steps: number): Promise<void> => {
    try {
      await call("stoa-datastore:rollback", { back: steps });
      go(link("configuration", ["commit"]));
    } catch (error) {
      setWrong(error as Failure);
    }
  };
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Faults faults={wrong?.faults ?? []} />
      <Card title={`${list.length} configurations`} note="newest first" wide>
        <ol class="history">
          {list.map((entry, at) => {
            const before = list[at + 1];
            const isOpen = open === entry.number;
            return (
              <li key={entry.number}>
                <div class="entry">
                  <span class="mono number">{entry.number}</span>
                  <span class="what">
                    {entry.comment ? <b>{entry.comment}</b> : <span class="note">no comment</span>}
                    <small>
                      {entry.author} by {entry.client}, {moment(entry.time)}
                      {at === 0 ? ", running" : ""}
                    </small>
                  </span>
                  <span class="buttons">
                    {before && (
                      <button aria-expanded={isOpen} onClick={() => setOpen(isOpen ? "" : entry.number)}>
                        {isOpen ? "Hide" : "Show changes"}
                      </button>
                    )}
                    {at > 0 && <button onClick={() => void back(at)}>Roll back …</button>}
                  </span>
                </div>
                {isOpen && before && <Difference old={before.number} number={entry.number} />}
              </li>
            );
          })}
        </ol>
        {list.length === 0 && <p class="none">No commits yet.</p>}
        <p class="none">“Roll back” makes a configuration the candidate. Review the changes, then commit.</p>
      </Card>
    </>
  );
}
