// Flows: those with the most octets or the highest rate of any number of them.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useCell } from "../cell";
import { bitRate, bytes, count, counted, number, packetRate, percent, roughDuration } from "../figures";
import { type Flow, type FlowFamily, ROWS, STATES, type Search, TABLES, byState, countersOf, ends, findFlows, flowCounts, flowKey, flowLimits, octets, sumOf, talkers, vrfNames } from "../flows";
import { Bar, Card, type Column, Empty, Faults, Field, Figure, type Mood, State, Table, Waiting, typed } from "../parts";
import { PROTOCOLS } from "../policy_rule";
import { usePoll } from "../poll";
import { prefix } from "../prefixes";
import { Meter } from "../rates";
import { go, link, place } from "../route";
import type { Failure } from "../server";
import type { Limit } from "../yang";

/** Hosts that are shown as talkers. */
const TALKERS = 4;

/** What a state means for a flow. */
export function moodOf(flow: Flow): Mood {
  if (flow.suspended) return "warn";
  if (flow.state === "tcp-reset") return "bad";
  return /established|replied|^icmp$/.test(flow.state) ? "good" : "idle";
}

/** The state without the protocol, which has its column. */
export const stateWords = (flow: Flow): string => `${flow.state.replace(/^(tcp|udp|other)-/, "")}${flow.suspended ? ", suspended" : ""}`;

export const endsIn = (flow: Flow): string => roughDuration(Math.max(0, (flow.timeout ?? 0) - (flow.idle ?? 0)));

/** Whether the input is valid; otherwise why not. */
export function complaint(search: Search): string {
  if (search.prefix !== "" && !prefix(search.prefix)) return `“${search.prefix}” is neither an address nor a prefix: enter one like 192.0.2.1 or 10.0.0.0/8.`;
  if (search.port !== "" && !(/^\d{1,5}$/.test(search.port) && Number(search.port) >= 1 && Number(search.port) <= 65_535)) {
    return `“${search.port}” is no port: enter a number from 1 to 65535.`;
  }
  return "";
}

/** The search of a location. */
export function searchOf(query: Map<string, string>): Search {
  const of = (name: string): string => query.get(name) ?? "";
  return { prefix: of("prefix"), port: of("port"), protocol: of("protocol"), vrf: of("vrf"), state: of("state"), order: of("order") === "rate" ? "rate" : "octets" };
}

/** Its link. */
export const searchLink = (search: Search): string => link("flows", [], { ...search, order: search.order === "rate" ? "rate" : "" });

function End({ flow, which }: { flow: Flow; which: "source" | "destination" }): JSX.Element {
  const { shown, behind } = ends(flow, which);
  return (
    <span class="stack mono end">
      <span>{shown}</span>
      {behind !== "" && (
        <small title="after translation">
          <span aria-label="translated to">→</span> {behind}
        </small>
      )}
    </span>
  );
}

function columnsOf(rates: Map<string, number>, hasVrfs: boolean): Column<Flow>[] {
  const amount = (size: unknown, packets: unknown): JSX.Element => <span title={`${count(number(packets))} packets`}>{bytes(number(size))}</span>;
  const all: (Column<Flow> | false)[] = [
    {
      name: "Protocol",
      width: "8.4rem",
      show: (it) => (
        <span class="stack">
          {PROTOCOLS[it.protocol] ?? String(it.protocol)}
          <small>
            <State mood={moodOf(it)}>{stateWords(it)}</State>
          </small>
        </span>
      ),
    },
    { name: "From", show: (it) => <End flow={it} which="source" /> },
    { name: "To", show: (it) => <End flow={it} which="destination" /> },
    {
      name: "Now",
      right: true,
      width: "6.6rem",
      show: (it) => {
        const [bits, packets] = ["bits", "packets"].map((name) => rates.get(`${flowKey(it)} ${name}`));
        return (
          <span class="stack">
            {bits === undefined ? "–" : bitRate(bits)}
            <small>{packets === undefined ? "\u00a0" : packetRate(packets)}</small>
          </span>
        );
      },
    },
    { name: "Sent", right: true, width: "5.6rem", show: (it) => amount(it.octets, it.packets) },
    { name: "Replies", right: true, width: "5.6rem", show: (it) => amount(it["reply-octets"], it["reply-packets"]) },
    {
      name: "Age",
      right: true,
      extra: true,
      width: "5.6rem",
      show: (it) => (
        <span class="stack">
          {roughDuration(it.age ?? 0)}
          <small title="without packets">{endsIn(it)} left</small>
        </span>
      ),
    },
    {
      name: "Rule",
      extra: true,
      width: "7.4rem",
      show: (it) =>
        it.acl ? (
          <span class="stack">
            <a href={link("rules", [], { search: it.ace ?? "" })}>{it.ace}</a>
            <small>{it.acl}</small>
          </span>
        ) : (
          <span class="note">–</span>
        ),
    },
    hasVrfs && { name: "VRF", extra: true, width: "5.6rem", show: (it: Flow) => it.vrf ?? "default" },
  ];
  return all.filter((column): column is Column<Flow> => column !== false);
}

function Summary({ families, limits }: { families: FlowFamily[] | undefined; limits: Map<string, Limit> | undefined }): JSX.Element {
  const list = families ?? [];
  const tables = TABLES.map(([name, words]) => ({ words, used: number(limits?.get(name)?.used), limit: number(limits?.get(name)?.limit) }));
  const live = tables.reduce((sum, { used }) => sum + used, 0);
  const halfOpen = byState(list).find(([name]) => name === "tcp-opening")?.[1] ?? 0;
  const refused = sumOf(list, "refused-packets") + sumOf(list, "source-limited-packets") + number(limits?.get("nat-flows")?.refused);
  const evicted = sumOf(list, "evicted-flows");
  const more = refused > 0 ? `${count(refused)} packets without room` : evicted > 0 ? `${count(evicted)} gave way to others` : "";
  return (
    <dl class="figures">
      <Figure name="Live flows" value={limits ? count(live) : "–"} below={more || "none had to give way"} {...(refused > 0 && { mood: "warn" as const })} />
      {tables.map(({ words, used, limit }) => {
        const share = limit > 0 ? used / limit : 0;
        return <Figure name={words} value={limits ? count(used) : "–"} below={limits ? `of ${count(limit)}: ${percent(share)}` : "\u00a0"} {...(share >= 0.8 && { mood: "warn" as const })} />;
      })}
      <Figure name="Half-open TCP" value={families ? count(halfOpen) : "–"} below="not acknowledged yet" {...(live > 100 && halfOpen > live / 2 && { mood: "warn" as const })} />
    </dl>
  );
}

/** Buttons that select a state, with the number of its flows. */
function States({ families, search }: { families: FlowFamily[] | undefined; search: Search }): JSX.Element {
  // A state that was there stays: the page must not move when its last flow ends.
  const seen = useRef(new Set<string>());
  const counts = new Map(byState(families ?? []));
  for (const name of counts.keys()) seen.current.add(name);
  const shown = [...STATES, "suspended"].filter((name) => seen.current.has(name) || search.state === name);
  const choose = (state: string): void => go(searchLink({ ...search, state: search.state === state ? "" : state }));
  return (
    <div class="chips" role="group" aria-label="States">
      <button class="chip" aria-pressed={search.state === ""} onClick={() => choose("")}>
        all states
      </button>
      {shown.map((name) => (
        <button class="chip" aria-pressed={search.state === name} onClick={() => choose(name)}>
          {name} <b>{count(counts.get(name) ?? 0)}</b>
        </button>
      ))}
    </div>
  );
}

function Filter({ search, vrfs }: { search: Search; vrfs: string[] }): JSX.Element {
  const [text, setText] = useState({ prefix: search.prefix, port: search.port });
  const [why, setWhy] = useState("");
  useEffect(() => setText({ prefix: search.prefix, port: search.port }), [search.prefix, search.port]);
  const apply = (change: Partial<Search>): void => {
    const next = { ...search, prefix: text.prefix.trim(), port: text.port.trim(), ...change };
    const wrong = complaint(next);
    setWhy(wrong);
    if (wrong === "") go(searchLink(next));
  };
  const isFiltered = searchLink({ ...search, order: "octets" }) !== link("flows");
  return (
    <>
      <form class="row search" onSubmit={(event) => (event.preventDefault(), apply({}))}>
        <Field label="Address or prefix">
          <input type="search" name="prefix" value={text.prefix} onInput={(event) => setText({ ...text, prefix: typed(event) })} placeholder="10.0.0.7 or 10.0.0.0/8" spellcheck={false} autocapitalize="none" />
        </Field>
        <Field label="Port">
          <input name="port" inputMode="numeric" value={text.port} onInput={(event) => setText({ ...text, port: typed(event) })} placeholder="443" />
        </Field>
        <Field label="Protocol">
          <select name="protocol" value={search.protocol} onChange={(event) => apply({ protocol: typed(event) })}>
            <option value="">any</option>
            {["tcp", "udp", "icmp", "gre", "esp", "sctp"].map((name) => (
              <option value={name}>{name.toUpperCase()}</option>
            ))}
          </select>
        </Field>
        {(vrfs.length > 0 || search.vrf !== "") && (
          <Field label="VRF">
            <select name="vrf" value={search.vrf} onChange={(event) => apply({ vrf: typed(event) })}>
              <option value="">any</option>
              {[...new Set(["default", ...vrfs, ...(search.vrf ? [search.vrf] : [])])].map((name) => (
                <option value={name}>{name}</option>
              ))}
            </select>
          </Field>
        )}
        <Field label="First">
          <select name="order" value={search.order} onChange={(event) => apply({ order: typed(event) === "rate" ? "rate" : "octets" })}>
            <option value="octets">most bytes</option>
            <option value="rate">highest mean rate</option>
          </select>
        </Field>
        <span class="buttons">
          <button class="main">Search</button>
          {isFiltered && (
            <a class="button" href={link("flows", [], { order: search.order === "rate" ? "rate" : "" })}>
              Clear
            </a>
          )}
        </span>
      </form>
      {why && <p role="alert" class="wrong">{why}</p>}
    </>
  );
}

function Talkers(props: { title: string; flows: Flow[]; which: "source" | "destination"; rates: Map<string, number>; search: Search }): JSX.Element {
  const { title, flows, which, rates, search } = props;
  const list = talkers(flows, which, rates, search.order === "rate").slice(0, TALKERS);
  const all = flows.reduce((sum, flow) => sum + octets(flow), 0);
  return (
    <Card title={title} note="of the flows below">
      <ul class="lines">
        {list.map((it) => (
          <li key={it.address}>
            <a class="mono" href={searchLink({ ...search, prefix: it.address })}>
              {it.address}
            </a>
            <Bar share={all > 0 ? it.octets / all : 0} words={`${bytes(it.octets)}, ${counted(it.flows, "flow")}`} label={it.address} isPart />
          </li>
        ))}
      </ul>
    </Card>
  );
}

const NONE = (
  <Empty title="There is no flow.">
    <p>
      Stateful rules create flows, and address translation does. This makes the rule all of the list out stateful:
    </p>
    <pre>{`stoa set acls acl out aces ace all actions stateful true
stoa commit confirmed 5`}</pre>
    <p>
      The guide has a whole example (stateful-rules.md). <a href={link("rules")}>See the rules</a>
    </p>
  </Empty>
);

export function Flows(): JSX.Element {
  const search = searchOf(useCell(place).query);
  const meter = useRef(new Meter());
  const { data: families } = usePoll(flowCounts, 2_000, [], true);
  const { data: limits } = usePoll(flowLimits, 2_000, []);
  const { data: vrfs } = usePoll(vrfNames, 30_000, []);
  const { data, failure, at } = usePoll(() => findFlows(search), 2_000, [searchLink(search)], true);
  const flows = data?.flow ?? [];
  const rates = data && at > 0 ? meter.current.take(countersOf(flows), at) : meter.current.current;
  const matching = number(data?.matching);
  const isAll = searchLink({ ...search, order: "octets" }) === link("flows");
  const isRefused = failure !== undefined && failure.status >= 400 && failure.status < 500;
  const hasVrfs = (vrfs ?? []).length > 0 || flows.some((flow) => (flow.vrf ?? "default") !== "default");
  const words = matching > flows.length ? `the first ${count(flows.length)} of ${counted(matching, "flow")}` : counted(matching, "flow");
  return (
    <>
      <Summary families={families} limits={limits} />
      <section class="card" aria-label="Search">
        <Filter search={search} vrfs={vrfs ?? []} />
        <States families={families} search={search} />
      </section>
      {isRefused ? <Faults faults={(failure as Failure).faults} /> : <Waiting failure={failure} data={data} />}
      {flows.length > 0 && (
        <div class="cards talkers">
          <Talkers title="Top senders" flows={flows} which="source" rates={rates} search={search} />
          <Talkers title="Top destinations" flows={flows} which="destination" rates={rates} search={search} />
        </div>
      )}
      {data && !isRefused && (flows.length > 0 || !isAll) && (
        <Card title="Flows" note={words} wide>
          <Table caption="Flows" columns={columnsOf(rates, hasVrfs)} rows={flows} mark={flowKey} none="No flow meets all conditions." />
          {matching > ROWS && <p class="none">The page shows at most {ROWS}: search for others.</p>}
        </Card>
      )}
      {data && !isRefused && flows.length === 0 && isAll && NONE}
    </>
  );
}
