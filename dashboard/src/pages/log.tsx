// Events of the router and its log messages.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useCell } from "../cell";
import { type RouterEvent, changes, eventsSeen } from "../events";
import { moment, shortMoment } from "../figures";
import { Card, type Column, Field, type Mood, Notice, State, Table, Waiting, typed } from "../parts";
import { usePoll } from "../poll";
import { type LogMessage, bfdSessions, lastChanges, logMessages, virtualRouters } from "../protocols";
import { call } from "../server";
import type { Entry } from "../yang";

/** Events and messages that are shown. */
const ROWS = 200;
const LEVELS = ["error", "warn", "info", "debug", "trace"] as const;
const MOODS: Record<LogMessage["level"], Mood> = { error: "bad", warn: "warn", info: "idle", debug: "idle", trace: "idle" };

/** The past, by the state and the history: the last change of each interface and session, and all commits. */
async function past(signal: AbortSignal): Promise<RouterEvent[]> {
  const commits = async (): Promise<RouterEvent[]> => {
    const { entry } = await call<{ entry?: Entry[] }>("stoa-datastore:history");
    return (entry ?? []).map((one) => ({ time: one.time, mood: "idle", what: "commit", words: `Configuration ${one.number} by ${one.author} (${one.client})${one.comment ? `: ${one.comment}` : ""}` }));
  };
  const links = async (): Promise<RouterEvent[]> =>
    (await lastChanges(signal)).map(({ name, time, state }) => ({ time, mood: state === "up" ? "good" : "bad", what: "interface", words: `${name} went ${state}` }));
  const bfd = async (): Promise<RouterEvent[]> =>
    (await bfdSessions(signal)).flatMap((one) => {
      const running = one["session-running"];
      if (!running?.["last-change"] || !running["local-state"]) return [];
      return [{ time: running["last-change"], mood: running["local-state"] === "up" ? "good" : "bad", what: "BFD", words: `Session with ${one["dest-addr"]} on ${one.interface} went ${running["local-state"]}` }];
    });
  const vrrp = async (): Promise<RouterEvent[]> =>
    (await virtualRouters(signal)).flatMap((one) => (one["up-datetime"] ? [{ time: one["up-datetime"], mood: "idle", what: "VRRP", words: `Virtual router ${one.vrid} on ${one.interface} started` }] : []));
  // What one may not read is left out.
  const parts = await Promise.allSettled([commits(), links(), bfd(), vrrp()]);
  if (parts.every((part) => part.status === "rejected")) throw (parts[0] as PromiseRejectedResult).reason;
  return parts.flatMap((part) => (part.status === "fulfilled" ? part.value : []));
}

/** Newest first, and each once: the stream and the state report the same change, at most a few seconds apart. */
export function merged(seen: RouterEvent[], before: RouterEvent[]): RouterEvent[] {
  const at = (one: RouterEvent): number => new Date(one.time).getTime();
  const isSame = (a: RouterEvent, b: RouterEvent): boolean => a.what === b.what && a.words === b.words && Math.abs(at(a) - at(b)) < 5_000;
  return [...seen, ...before.filter((one) => !seen.some((other) => isSame(one, other)))].sort((a, b) => at(b) - at(a));
}

const EVENTS: Column<RouterEvent>[] = [
  { name: "Time", show: (one) => <span title={moment(one.time)}>{shortMoment(one.time)}</span> },
  { name: "Kind", show: (one) => <State mood={one.mood}>{one.what}</State> },
  { name: "Event", text: true, show: (one) => one.words },
];

function Events(): JSX.Element {
  const seen = useCell(eventsSeen);
  const turn = useCell(changes);
  const { data, failure } = usePoll(past, 10_000, [turn]);
  const list = merged(seen, data ?? []);
  return (
    <Card title="Events" note="newest first: commits, and the last change of each interface and session" wide>
      <Waiting failure={failure} data={data} />
      {data && <Table caption="Events" columns={EVENTS} rows={list.slice(0, ROWS)} mark={(one) => `${one.time} ${one.what} ${one.words}`} none="No events." />}
      {list.length > ROWS && <p class="none">Only the last {ROWS} are shown.</p>}
    </Card>
  );
}

const MESSAGES: Column<LogMessage>[] = [
  { name: "Time", show: (one) => <span title={moment(one.time)}>{shortMoment(one.time)}</span> },
  { name: "Level", show: (one) => <State mood={MOODS[one.level]}>{one.level}</State> },
  { name: "Process", extra: true, show: (one) => one.program },
  { name: "Message", text: true, show: (one) => <span class="message">{one.text}</span> },
];

function Messages(): JSX.Element {
  const [level, setLevel] = useState<string>("info");
  const [search, setSearch] = useState("");
  const { data, failure } = usePoll(() => logMessages(level, 1_000), 3_000, [level]);
  if (failure?.status === 403) {
    return (
      <Card title="Log" wide>
        <Notice mood="idle">
          You may not read the log. An administrator can permit it with an access rule for the operation <code>stoa-logging:recent-messages</code>.
        </Notice>
      </Card>
    );
  }
  const query = search.trim().toLowerCase();
  const found = (data ?? []).filter((one) => `${one.program} ${one.target ?? ""} ${one.text ?? ""}`.toLowerCase().includes(query));
  return (
    <Card title="Log" note="the last messages of controller and forwarder, newest first; stoa show log has older ones" wide>
      <form class="row" onSubmit={(event) => event.preventDefault()}>
        <Field label="Level">
          <select name="level" value={level} onChange={(event) => setLevel(typed(event))}>
            {LEVELS.map((name, at) => (
              <option value={name}>{at === 0 ? "error" : `${name} and above`}</option>
            ))}
          </select>
        </Field>
        <Field label="Search">
          <input type="search" value={search} onInput={(event) => setSearch(typed(event))} />
        </Field>
      </form>
      <Waiting failure={failure} data={data} />
      {data && <Table caption="Log messages" columns={MESSAGES} rows={found.slice(0, ROWS)} mark={(one) => `${one.time} ${one.program} ${one.text ?? ""}`} none="No messages." />}
      {found.length > ROWS && <p class="none">Only the last {ROWS} are shown: use the search for others.</p>}
    </Card>
  );
}

export const Log = (): JSX.Element => (
  <>
    <Events />
    <Messages />
  </>
);
