// The rules of access lists and zones, with their hits.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  type AccessList,
  type AccessLists,
  type Ace,
  type Place,
  type Zone,
  accessLists,
  besides,
  conditions,
  countersOf,
  familiesOf,
  forwarding,
  hits,
  places,
  placesOf,
  ruleKey,
  thresholdOf,
} from "../access_lists";
import { useCell } from "../cell";
import { bytes, count, counted, number, packetRate, roughDuration } from "../figures";
import { Bar, Card, type Column, Empty, Field, Figure, type Mood, Notice, Stack, State, Table, Waiting, typed } from "../parts";
import { usePoll } from "../poll";
import { Meter } from "../rates";
import { link, place } from "../route";

/** Rules of a list that are shown at once. */
const ROWS = 200;

/** A rule with its number in its list. */
interface Row {
  at: number;
  ace: Ace;
}

const MOODS: Record<string, Mood> = { accept: "good", drop: "bad", reject: "warn" };

/** How long ago the last packet matched. */
export function lastHit(ace: Ace, now_ms: number): string {
  const time = ace.statistics?.["stoa-acl:last-hit"];
  if (time === undefined) return "never";
  const passed = (now_ms - Date.parse(time)) / 1000;
  return passed < 2 ? "now" : `${roughDuration(passed)} ago`;
}

export const isNever = (ace: Ace): boolean => ace.statistics !== undefined && hits(ace) === 0;

/** The families of a list in words. */
export const familyWords = (list: AccessList): string => familiesOf(list).map((family) => (family === "ipv4" ? "IPv4" : "IPv6")).join(" and ");

/** The rules of a list that a search selects. */
export function selected(list: AccessList, query: string, isNeverOnly: boolean): Row[] {
  const rows = (list.aces?.ace ?? []).map((ace, at) => ({ at: at + 1, ace }));
  const text = ({ ace }: Row): string => `${list.name} ${ace.name} ${conditions(ace).join(" ")} ${forwarding(ace)} ${besides(ace).join(" ")}`.toLowerCase();
  return rows.filter((row) => (query === "" || text(row).includes(query)) && (!isNeverOnly || isNever(row.ace)));
}

function columnsOf(list: AccessList, rates: Map<string, number>, now_ms: number): Column<Row>[] {
  const all = (list.aces?.ace ?? []).reduce((sum, ace) => sum + hits(ace), 0);
  return [
    { name: "#", width: "2.2rem", show: ({ at }) => <span class="note">{at}</span> },
    { name: "Rule", width: "17%", show: ({ ace }) => <b class="rule">{ace.name}</b> },
    { name: "Packets that match", show: ({ ace }) => <span>{conditions(ace).join(", ")}</span> },
    {
      name: "Action",
      width: "16%",
      show: ({ ace }) => (
        <>
          <State mood={MOODS[forwarding(ace)] ?? "idle"}>{forwarding(ace)}</State>
          {besides(ace).length > 0 && <small class="under">{besides(ace).join(", ")}</small>}
        </>
      ),
    },
    { name: "Now", right: true, extra: true, width: "6.6rem", show: ({ ace }) => (isNever(ace) ? "" : packetRate(rates.get(ruleKey(list.name, ace.name)) ?? 0)) },
    {
      name: "Hits",
      right: true,
      width: "7.6rem",
      show: ({ ace }) =>
        ace.statistics === undefined ? "–" : <Bar share={all > 0 ? hits(ace) / all : 0} words={count(hits(ace))} label={`Part of the hits of ${list.name}`} isPart isBelow />,
    },
    { name: "Volume", right: true, extra: true, width: "6rem", show: ({ ace }) => (isNever(ace) ? "" : bytes(number(ace.statistics?.["matched-octets"]))) },
    {
      name: "Last hit",
      right: true,
      width: "7rem",
      show: ({ ace }) => (isNever(ace) ? <State mood="idle">never</State> : ace.statistics === undefined ? "–" : lastHit(ace, now_ms)),
    },
  ];
}

function List(props: { list: AccessList; all: Place[]; rates: Map<string, number>; query: string; isNeverOnly: boolean }): JSX.Element | null {
  const { list, all, rates, query, isNeverOnly } = props;
  const rows = selected(list, query, isNeverOnly);
  const attached = placesOf(list.name, all);
  if (rows.length === 0 && (query !== "" || isNeverOnly)) return null;
  const total = list.aces?.ace?.length ?? 0;
  return (
    <Card title={list.name} note={`${familyWords(list)}, ${rows.length < total ? `${rows.length} of ` : ""}${counted(total, "rule")}`} wide tools={
      attached.length > 0 ? <span class="chips">{attached.map((words) => <span class="chip">{words}</span>)}</span> : <State mood="warn">attached nowhere: it decides about no packet</State>
    }>
      <Table caption={`Rules of ${list.name}`} columns={columnsOf(list, rates, Date.now())} rows={rows.slice(0, ROWS)} mark={({ ace }) => ace.name} isFaint={({ ace }) => isNever(ace)} none="This list has no rules." />
      {rows.length > ROWS && <p class="none">Only the first {ROWS} are shown: use the search for others.</p>}
    </Card>
  );
}

const WHERE: Record<Place["kind"], string> = { input: "received by", output: "sent by", pair: "between zones" };
const FAMILIES = { ipv4: "IPv4", ipv6: "IPv6" };

const PLACE_COLUMNS: Column<Place>[] = [
  { name: "Packets", width: "9rem", show: (it) => WHERE[it.kind] },
  { name: "Place", show: (it) => (it.kind === "pair" ? it.name : <a href={link("interfaces", [it.name])}>{it.name}</a>) },
  { name: "Family", extra: true, width: "6rem", show: (it) => (it.family ? FAMILIES[it.family] : "both") },
  { name: "Lists in their order", show: (it) => (it.lists.length > 0 ? it.lists.join(", ") : <span class="note">none: nothing passes</span>) },
  {
    name: "No rule matched: dropped",
    right: true,
    width: "16rem",
    show: (it) => (it.packets === undefined ? "–" : it.packets === 0 ? <span class="note">nothing</span> : `${count(it.packets)} packets, ${bytes(it.octets ?? 0)}`),
  },
];

function Places({ data, all }: { data: AccessLists; all: Place[] }): JSX.Element | null {
  const unpaired = data["stoa-acl:zone-pairs"]?.unpaired;
  if (all.length === 0) return null;
  return (
    <Card title="Where lists decide" note="The first matching rule of all lists of a place decides." wide>
      <Table caption="Places of lists" columns={PLACE_COLUMNS} rows={all} mark={(it) => `${it.kind} ${it.name} ${it.family ?? ""}`} none="" />
      {number(unpaired?.["dropped-packets"]) > 0 && (
        <p class="none">
          Between zones without a pair: {count(number(unpaired?.["dropped-packets"]))} packets dropped, {bytes(number(unpaired?.["dropped-octets"]))}.
        </p>
      )}
    </Card>
  );
}

const ZONE_COLUMNS: Column<Zone>[] = [
  { name: "Zone", show: (it) => <b class="rule">{it.name}</b> },
  { name: "Interfaces", show: (it) => <Stack texts={it.interface ?? []} /> },
  { name: "Description", extra: true, show: (it) => it.description ?? "" },
  {
    name: "SYN cookies",
    show: (it) => {
      const state = it["syn-cookies-state"];
      if (!it["syn-cookies"]) return <span class="note">not configured</span>;
      const words = `${count(state?.["half-open"] ?? 0)} half open of ${count(thresholdOf(it))}`;
      return <State mood={state?.active ? "warn" : "good"}>{state?.active ? `on: ${words}` : `ready: ${words}`}</State>;
    },
  },
];

function Zones({ zones }: { zones: Zone[] }): JSX.Element | null {
  if (zones.length === 0) return null;
  return (
    <Card title="Zones" note="Nothing passes from one zone to another without a pair." wide>
      <Table caption="Zones" columns={ZONE_COLUMNS} rows={zones} mark={(it) => it.name} none="" />
    </Card>
  );
}

const NONE = (
  <Empty title="No access list: all packets pass.">
    <p>Hosts behind lan reach everything, and by wan only answers and connections to port 443 come in:</p>
    <pre>{`stoa set acls acl out aces ace all actions forwarding accept
stoa set acls acl out aces ace all actions stateful true
stoa set acls acl in aces ace web matches tcp destination-port port 443
stoa set acls acl in aces ace web actions forwarding accept
stoa set acls acl in aces ace web actions stateful true
stoa set acls attachment-points interface lan ingress acl-sets acl-set out
stoa set acls attachment-points interface wan ingress acl-sets acl-set in
stoa commit confirmed 5`}</pre>
    <p>
      The guide explains access lists (acl.md), zones (zones.md) and stateful rules (stateful-rules.md). <a href={link("configuration", ["json"])}>Edit the configuration</a>
    </p>
  </Empty>
);

function Summary({ data, all, rates }: { data: AccessLists; all: Place[]; rates: Map<string, number> }): JSX.Element {
  const lists = data.acl ?? [];
  const rules = lists.flatMap((list) => (list.aces?.ace ?? []).map((ace) => ({ list, ace })));
  const never = rules.filter(({ ace }) => isNever(ace)).length;
  const rate = (isMeant: (ace: Ace) => boolean): number =>
    rules.filter(({ ace }) => isMeant(ace)).reduce((sum, { list, ace }) => sum + (rates.get(ruleKey(list.name, ace.name)) ?? 0), 0);
  const unmatched = all.reduce((sum, it) => sum + (it.packets ?? 0), 0) + number(data["stoa-acl:zone-pairs"]?.unpaired?.["dropped-packets"]);
  return (
    <dl class="figures">
      <Figure name="Rules" value={count(rules.length)} below={`in ${counted(lists.length, "list")}`} />
      <Figure name="Accepted now" value={packetRate(rate((ace) => forwarding(ace) === "accept"))} below="met a rule" />
      <Figure name="Refused now" value={packetRate(rate((ace) => forwarding(ace) !== "accept"))} below="drop and reject" />
      <Figure name="No rule matched" value={count(unmatched)} below="packets dropped" />
      <Figure name="Never matched" value={count(never)} below={`of ${counted(rules.length, "rule")}`} {...(never > 0 && { mood: "warn" as const })} />
    </dl>
  );
}

export function Rules(): JSX.Element {
  const { query: asked } = useCell(place);
  const [search, setSearch] = useState(asked.get("search") ?? "");
  const [isNeverOnly, setNeverOnly] = useState(false);
  const meter = useRef(new Meter());
  useEffect(() => setSearch(asked.get("search") ?? ""), [asked]);
  const { data, failure, at } = usePoll(accessLists, 2_000, [], true);
  if (!data) return <Waiting failure={failure} data={data} />;
  const rates = at > 0 ? meter.current.take(countersOf(data), at) : meter.current.current;
  const all = places(data);
  // Lists that decide about nothing come last.
  const isLoose = (list: AccessList): number => (placesOf(list.name, all).length === 0 ? 1 : 0);
  const lists = [...(data.acl ?? [])].sort((a, b) => isLoose(a) - isLoose(b));
  const zones = data["stoa-acl:zones"]?.zone ?? [];
  if (lists.length === 0 && zones.length === 0) {
    return (
      <>
        <Waiting failure={failure} data={data} />
        {NONE}
      </>
    );
  }
  const query = search.trim().toLowerCase();
  const found = lists.filter((list) => selected(list, query, isNeverOnly).length > 0);
  const loose = lists.filter((list) => isLoose(list) === 1).length;
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Summary data={data} all={all} rates={rates} />
      {loose > 0 && <Notice mood="warn">{counted(loose, "list")} attached nowhere: no interface and no pair of zones has {loose === 1 ? "it" : "them"}.</Notice>}
      <div class="filter">
        <Field label="Search by list, rule, condition or action">
          <input type="search" name="search" value={search} onInput={(event) => setSearch(typed(event))} placeholder="443, stateful, drop …" spellcheck={false} autocapitalize="none" />
        </Field>
        <label class="check">
          <input type="checkbox" name="never" checked={isNeverOnly} onChange={(event) => setNeverOnly(event.currentTarget.checked)} /> only rules that never matched
        </label>
      </div>
      {lists.map((list) => (
        <List key={list.name} list={list} all={all} rates={rates} query={query} isNeverOnly={isNeverOnly} />
      ))}
      {found.length === 0 && (query !== "" || isNeverOnly) && <p class="none">No rule matches the search.</p>}
      <Places data={data} all={all} />
      <Zones zones={zones} />
    </>
  );
}
