// BGP sessions with routing daemons, and BFD sessions with neighbours.
import type { JSX } from "preact";
import { count, number } from "../figures";
import { Card, type Column, type Mood, Notice, State, Table, Waiting } from "../parts";
import { usePoll } from "../poll";
import { type BfdRow, type Protocol, bfdSessions, routeSources } from "../protocols";
import { link } from "../route";
import { endpoint, reasons, since, sourceState, staleWords } from "./daemons";

const sourceOf = (one: Protocol) => one["stoa-routing:route-source"] ?? {};

const BGP: Column<Protocol>[] = [
  { name: "Session", show: (one) => one.name },
  {
    name: "State",
    text: true,
    show: (one) => {
      const { mood, words } = sourceState(one);
      const details = [staleWords(one), ...reasons(one)].filter(Boolean).join("; ");
      return (
        <>
          <State mood={mood}>{words}</State>
          {details && <small class="under">{details}</small>}
        </>
      );
    },
  },
  { name: "AS", right: true, show: (one) => String(sourceOf(one).as ?? "–") },
  { name: "Listens on", show: (one) => <span class="mono">{endpoint(one)}</span> },
  { name: "Identifier", extra: true, show: (one) => <span class="mono">{sourceOf(one)["router-id"] ?? "–"}</span> },
  { name: "Paths", extra: true, show: (one) => `${sourceOf(one)["add-paths"] ? "all (add-path)" : "best"}, ${sourceOf(one).multipath ?? 1} at once` },
  { name: "IPv4", right: true, show: (one) => count(number(sourceOf(one).session?.["ipv4-routes"])) },
  { name: "IPv6", right: true, show: (one) => count(number(sourceOf(one).session?.["ipv6-routes"])) },
  { name: "Reported", right: true, show: (one) => count(number(sourceOf(one).session?.updates)) },
  { name: "Withdrawn", right: true, show: (one) => count(number(sourceOf(one).session?.withdrawals)) },
];

/** Diagnostic codes of RFC 5880, section 4.1. */
const DIAGNOSTICS = [
  "",
  "detection time expired",
  "echo failed",
  "neighbour signalled down",
  "forwarding plane reset",
  "path down",
  "concatenated path down",
  "administratively down",
  "reverse path down",
];

export function bfdState(one: BfdRow): { mood: Mood; words: string } {
  const state = one["session-running"]?.["local-state"];
  if (state === undefined) return { mood: "warn", words: "not reported" };
  return { mood: state === "up" ? "good" : state === "admin-down" ? "idle" : one["session-running"]?.failed ? "bad" : "warn", words: state };
}

/** Microseconds in milliseconds. */
const time = (us: unknown): string => (us === undefined ? "–" : `${number(us) / 1000} ms`);

const BFD: Column<BfdRow>[] = [
  { name: "Neighbour", show: (one) => <span class="mono">{one["dest-addr"]}</span> },
  { name: "Interface", show: (one) => <a href={link("interfaces", [one.interface])}>{one.interface}</a> },
  {
    name: "State",
    text: true,
    show: (one) => {
      const { mood, words } = bfdState(one);
      const running = one["session-running"] ?? {};
      const why = DIAGNOSTICS[running["local-diagnostic"] ?? 0];
      const details = [running.failed && "routes through it are not used", why && `last reason: ${why}`].filter(Boolean).join("; ");
      return (
        <>
          <State mood={mood}>{words}</State>
          {details && <small class="under">{details}</small>}
        </>
      );
    },
  },
  { name: "Neighbour reports", show: (one) => one["session-running"]?.["remote-state"] ?? "–" },
  { name: "Since", show: (one) => since(one["session-running"]?.["last-change"]) },
  { name: "Sends every", right: true, show: (one) => time(one["session-running"]?.["negotiated-tx-interval"]) },
  { name: "Detects after", right: true, show: (one) => time(one["session-running"]?.["detection-time"]) },
  { name: "Went down", right: true, show: (one) => `${count(number(one["session-running"]?.["session-down-count"]))} times` },
  { name: "Received", right: true, extra: true, show: (one) => count(number(one["session-running"]?.["receive-packet-count"])) },
  { name: "Sent", right: true, extra: true, show: (one) => count(number(one["session-running"]?.["send-packet-count"])) },
];

export function Sessions(): JSX.Element {
  const { data, failure } = usePoll(async (signal) => ({ bgp: (await routeSources(signal)).filter((one) => one.type === "stoa-routing:bgp"), bfd: await bfdSessions(signal) }), 1_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const failed = data.bfd.filter((one) => one["session-running"]?.failed);
  return (
    <>
      <Waiting failure={failure} data={data} />
      {failed.length > 0 && (
        <Notice mood="bad" live>
          {failed.length === 1 ? "A BFD session is" : `${failed.length} BFD sessions are`} down after being up: {failed.map((one) => one["dest-addr"]).join(", ")}. Routes through {failed.length === 1 ? "it" : "them"} use other next hops.
        </Notice>
      )}
      <Card title="BGP sessions" note="with routing daemons; sessions between routers are those of the daemon" wide tools={<a href={link("daemons")}>All route sources</a>}>
        <Table caption="BGP sessions" columns={BGP} rows={data.bgp} mark={(one) => one.name} none="No route source of type bgp is configured." />
      </Card>
      <Card title="BFD sessions" wide tools={<a href={link("configuration", ["bfd"])}>Edit the sessions</a>}>
        <Table caption="BFD sessions" columns={BFD} rows={data.bfd} mark={(one) => `${one.interface} ${one["dest-addr"]}`} none="No BFD session is configured." />
      </Card>
    </>
  );
}
