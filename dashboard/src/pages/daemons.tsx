// Routing daemons: the route sources through which they export routes, and what the tables hold of each protocol.
import type { JSX } from "preact";
import { withoutModule } from "../data_path";
import { count, counted, duration, moment, number } from "../figures";
import { Card, type Column, type Mood, Notice, State, Table, Waiting } from "../parts";
import { usePoll } from "../poll";
import { type Protocol, routeSources } from "../protocols";
import { link } from "../route";
import { type Rib, ribs } from "../yang";

const KINDS: Record<string, string> = { "stoa-routing:fpm": "FPM", "stoa-routing:bgp": "BGP", "stoa-routing:netlink": "netlink" };
export const kindOf = (one: Protocol): string => KINDS[one.type] ?? one.type;

/** The state of a route source. */
export function sourceState(one: Protocol): { mood: Mood; words: string } {
  const session = one["stoa-routing:route-source"]?.session ?? {};
  if (session.open === false) return { mood: "bad", words: "not open" };
  if (session["up-since"]) {
    const age = duration((Date.now() - new Date(session["up-since"]).getTime()) / 1000);
    return session.state === "begun" ? { mood: "warn", words: `up for ${age}, receiving its routes` } : { mood: "good", words: `up for ${age}` };
  }
  if (session.open === undefined) return { mood: "warn", words: "not reported" };
  return session.state === "awaited" ? { mood: "warn", words: "no daemon has connected yet" } : { mood: "bad", words: "no session" };
}

/** The address and port, or the table, by which a daemon reaches a route source. */
export function endpoint(one: Protocol): string {
  const source = one["stoa-routing:route-source"] ?? {};
  const at = (address: string | undefined, port: number | undefined): string => (address?.includes(":") ? `[${address}]:${port ?? ""}` : `${address ?? ""}:${port ?? ""}`);
  const where = source["fpm-address"] ? at(source["fpm-address"], source["fpm-port"]) : source["bgp-address"] ? at(source["bgp-address"], source["bgp-port"]) : `table ${source["kernel-table"] ?? ""}`;
  return source.netns ? `${where} in ${source.netns}` : where;
}

/** The number of stale routes in words; undefined: all routes are current. */
export function staleWords(one: Protocol): string | undefined {
  const session = one["stoa-routing:route-source"]?.session ?? {};
  const stale = number(session["stale-routes"]);
  if (stale === 0) return undefined;
  const left = session["stale-time-left"];
  return `${counted(stale, "stale route")}${left === undefined ? "" : `, removed in ${duration(left)}`}`;
}

/** Why routes or connections of a route source were refused, and how often something went wrong. */
export function reasons(one: Protocol): string[] {
  const session = one["stoa-routing:route-source"]?.session ?? {};
  const counters: [string | undefined, string][] = [
    [session.malformed, "malformed message"],
    [session.resyncs, "resync"],
    [session.repaired, "repaired route"],
  ];
  const counts = counters.filter(([value]) => number(value) > 0).map(([value, words]) => counted(number(value), words));
  const refused = session["last-refusal"] && `refused a connection: ${session["last-refusal"]}`;
  return [session.reason, refused, counts.join(", ")].filter((words): words is string => Boolean(words));
}

type Counter = "ipv4-routes" | "ipv6-routes" | "waiting-routes" | "updates" | "withdrawals" | "not-imported" | "sessions";

const counter = (name: Counter) => (one: Protocol): string => {
  const value = one["stoa-routing:route-source"]?.session?.[name];
  return value === undefined ? "–" : count(number(value));
};

const SOURCES: Column<Protocol>[] = [
  {
    name: "Route source",
    show: (one) => (
      <>
        {one.name}
        <small class="under">{[`${kindOf(one)} at ${endpoint(one)}`, one["stoa-vrf:vrf"] && `VRF ${one["stoa-vrf:vrf"]}`, one.description].filter(Boolean).join(", ")}</small>
      </>
    ),
  },
  {
    name: "State",
    text: true,
    show: (one) => {
      const { mood, words } = sourceState(one);
      const stale = staleWords(one);
      return (
        <>
          <State mood={mood}>{words}</State>
          {stale && (
            <span class="under">
              <State mood="warn">{stale}</State>
            </span>
          )}
          {reasons(one).map((reason) => (
            <small class="under">{reason}</small>
          ))}
        </>
      );
    },
  },
  { name: "IPv4", right: true, show: counter("ipv4-routes") },
  { name: "IPv6", right: true, show: counter("ipv6-routes") },
  { name: "Waiting", right: true, show: counter("waiting-routes") },
  { name: "Not imported", right: true, show: counter("not-imported") },
  { name: "Reported", right: true, extra: true, show: counter("updates") },
  { name: "Withdrawn", right: true, extra: true, show: counter("withdrawals") },
  { name: "Sessions", right: true, extra: true, show: counter("sessions") },
];

interface Count {
  rib: string;
  protocol: string;
  routes: number;
}

const countsOf = (list: Rib[]): Count[] =>
  list.flatMap((rib) =>
    (rib["stoa-routing:route-counts"]?.protocol ?? []).map((one) => ({ rib: rib.name, protocol: withoutModule(one.name), routes: number(one.routes) })),
  );

const COUNTS: Column<Count>[] = [
  { name: "Table", show: (one) => <a href={link("routes", [], { table: one.rib })}>{one.rib}</a> },
  { name: "Protocol", show: (one) => one.protocol },
  { name: "Routes", right: true, show: (one) => count(one.routes) },
];

export function Daemons(): JSX.Element {
  const { data, failure } = usePoll(async (signal) => ({ sources: await routeSources(signal), tables: countsOf(await ribs(signal)) }), 2_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const lost = data.sources.filter((one) => sourceState(one).mood === "bad");
  const stale = data.sources.filter((one) => staleWords(one) !== undefined);
  return (
    <>
      <Waiting failure={failure} data={data} />
      {lost.length > 0 && (
        <Notice mood="bad" live>
          No session with {lost.map((one) => one.name).join(", ")}.{" "}
          {stale.length > 0 ? stale.map((one) => `${one.name}: ${staleWords(one) ?? ""}.`).join(" ") : "The daemon does not run, or cannot connect."}
        </Notice>
      )}
      <Card title="Route sources" note="through which daemons export their routes" wide tools={<a href={link("sessions")}>BGP and BFD sessions</a>}>
        <Table caption="Route sources" columns={SOURCES} rows={data.sources} mark={(one) => `${one.type} ${one.name}`} none="No route source is configured." />
      </Card>
      <Card title="Routes by protocol" wide>
        <Table caption="Routes by table and protocol" columns={COUNTS} rows={data.tables} mark={(one) => `${one.rib} ${one.protocol}`} none="No routes." />
      </Card>
    </>
  );
}

/** A time and how long ago it was. */
export const since = (iso: string | undefined): JSX.Element =>
  iso ? <span title={moment(iso)}>{duration((Date.now() - new Date(iso).getTime()) / 1000)} ago</span> : <>–</>;
