// The state of the router at a glance.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useCell } from "../cell";
import { Chart, DROPPED, RECEIVED, SENT, SpanChoice } from "../chart";
import { datastoreStatus } from "../events";
import { bitRate, count, counted, duration, moment, number, packetRate, percent } from "../figures";
import { Bar, Card, Figure, type Mood, Notice, State, Waiting } from "../parts";
import { usePoll } from "../poll";
import { Meter, Series } from "../rates";
import { link } from "../route";
import { type SourceSession, sourceProblems, sourceSessions } from "../source_problems";
import { history, seed, useReturns } from "../traffic";
import { type Forwarder, type Interface, type Limit, type DatastoreStatus, forwarder, interfaceCounters } from "../yang";

/** Use of a limit that is reported as a problem. */
const NEAR = 0.8;

// They are kept while another page is open.
const meter = new Meter();
const bits = new Series(2);
const packets = new Series(3);

interface Look {
  forwarder: Forwarder;
  interfaces: Interface[];
  sources: SourceSession[];
}

/** Sums over all ports. The counters of a port include its sub-interfaces. */
export function totals(look: Look): Map<string, number> {
  const ports = look.interfaces.filter((one) => !one["lower-layer-if"]?.length);
  const sum = (name: string): number => ports.reduce((all, one) => all + number(one.statistics?.[name]), 0);
  const found = new Map([
    ["in", sum("stoa-interfaces:in-pkts")],
    ["out", sum("stoa-interfaces:out-pkts")],
    ["in-bits", 8 * sum("in-octets")],
    ["out-bits", 8 * sum("out-octets")],
    ["missed", sum("stoa-interfaces:in-missed")],
    ["dropped", number(look.forwarder.conservation?.["dropped"])],
  ]);
  for (const drop of look.forwarder.drops?.drop ?? []) found.set(`drop ${drop.reason}`, number(drop.packets));
  return found;
}

const shareOf = (limit: Limit): number => (limit.used === undefined || !number(limit.limit) ? 0 : number(limit.used) / number(limit.limit));

interface Problem {
  mood: Mood;
  words: string;
  to?: string;
}

/** Problems, the worst first. */
export function problems(look: Look, stands: DatastoreStatus, rates: Map<string, number>): Problem[] {
  const found: Problem[] = [];
  if (look.forwarder["in-sync"] === false) {
    found.push({ mood: "bad", words: "The forwarder is not in sync with the running configuration, which is being sent again. If this persists, check the log." });
  }
  const down = look.interfaces.filter((one) => one["admin-status"] === "up" && one["oper-status"] !== "up");
  for (const one of down.slice(0, 5)) {
    found.push({ mood: "bad", words: `Interface ${one.name} is enabled, but ${one["oper-status"] ?? "down"}.`, to: link("interfaces", [one.name]) });
  }
  if (down.length > 5) found.push({ mood: "bad", words: `${down.length - 5} more interfaces are down.`, to: link("interfaces") });
  found.push(...sourceProblems(look.sources).map((problem) => ({ ...problem, to: link("daemons") })));
  for (const limit of look.forwarder.limits?.limit ?? []) {
    if (shareOf(limit) >= NEAR) found.push({ mood: "warn", words: `${limit.name}: ${percent(shareOf(limit))} of the limit is used. ${limit.fix ?? ""}` });
  }
  const missed = rates.get("missed") ?? 0;
  if (missed >= 1) found.push({ mood: "warn", words: `Ports miss ${packetRate(missed)}: packets arrive faster than the workers receive them.`, to: link("workers") });
  if (stands.edited) found.push({ mood: "warn", words: "The candidate has changes that are not committed.", to: link("configuration", ["commit"]) });
  return found;
}

function Health({ list }: { list: Problem[] }): JSX.Element {
  const bad = list.some((problem) => problem.mood === "bad");
  const warn = list.some((problem) => problem.mood === "warn");
  return (
    <Card title="Health" wide>
      <div aria-live="polite">
        <p class="health">
          <State mood={bad ? "bad" : warn ? "warn" : "good"}>{bad ? "Problem" : warn ? "Forwarding, with warnings" : "Healthy"}</State>
        </p>
        {list.length > 0 && (
          <ul class="problems">
            {list.map((problem) => (
              <li>
                <State mood={problem.mood}>{problem.to ? <a href={problem.to}>{problem.words}</a> : problem.words}</State>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Card>
  );
}

function TopDrops({ look, rates }: { look: Look; rates: Map<string, number> }): JSX.Element {
  const list = (look.forwarder.drops?.drop ?? []).filter((drop) => number(drop.packets) > 0);
  const rate = (reason: string): number => rates.get(`drop ${reason}`) ?? 0;
  list.sort((a, b) => rate(b.reason) - rate(a.reason) || number(b.packets) - number(a.packets));
  return (
    <Card title="Drops" tools={<a href={link("drops")}>All reasons</a>}>
      {list.length === 0 ? (
        <p class="none">No packets were dropped.</p>
      ) : (
        <ul class="lines">
          {list.slice(0, 6).map((drop) => (
            <li title={drop.description}>
              <span>{drop.reason}</span>
              <span>
                {packetRate(rate(drop.reason))} <small>{count(number(drop.packets))}{" "}total</small>
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Limits({ limits }: { limits: Limit[] }): JSX.Element {
  const list = limits.filter((limit) => limit.used !== undefined && number(limit.limit) > 0);
  list.sort((a, b) => shareOf(b) - shareOf(a) || a.name.localeCompare(b.name));
  return (
    <Card title="Limits" note="highest use first">
      <ul class="lines">
        {list.slice(0, 6).map((limit) => (
          <li title={limit.fix}>
            <span>{limit.name}</span>
            <Bar share={shareOf(limit)} label={limit.name} words={`${count(number(limit.used))} of ${count(number(limit.limit))}`} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Facts({ it }: { it: Forwarder }): JSX.Element {
  const up = it.started ? (Date.now() - new Date(it.started).getTime()) / 1000 : 0;
  const rows: [string, string][] = [
    ["Version", it.version ?? "–"],
    ["Running for", it.started ? `${duration(up)}, since ${moment(it.started)}` : "–"],
    ["Vector instructions", it.kernel ?? "–"],
    ["Packet memory", it.memory ?? "–"],
    ["Buffers free", `${count(number(it.conservation?.["buffers-free"]))} of ${count(number(it.conservation?.["buffers"]))}`],
    ["Process", String(it["process-id"] ?? "–")],
  ];
  return (
    <Card title="Forwarder">
      <dl class="facts">
        {rows.map(([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

export function Overview(): JSX.Element {
  const stands = useCell(datastoreStatus);
  const { data, failure, at } = usePoll<Look>(
    async (signal) => {
      const [state, list, sources] = await Promise.all([forwarder(signal), interfaceCounters(signal), sourceSessions(signal)]);
      return { forwarder: state, interfaces: list, sources };
    },
    1_000,
    [],
  );
  const rates = data && at > 0 ? meter.take(totals(data), at) : meter.current;
  const rate = (name: string): number | null => rates.get(name) ?? null;
  useEffect(() => {
    if (at === 0 || rates.size === 0) return;
    const now = Date.now() / 1000;
    bits.add(now, [rate("in-bits"), rate("out-bits")]);
    packets.add(now, [rate("in"), rate("out"), rate("dropped")]);
  }, [at]);
  const [seeded, setSeeded] = useState(0);
  useReturns(async () => {
    const { times, total } = await history([]);
    if (total) seed(bits, packets, times, total);
    setSeeded(performance.now());
  }, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const workers = data.forwarder.workers?.worker ?? [];
  const busiest = Math.max(0, ...workers.map((worker) => number(worker.busy)));
  const dropped = rate("dropped") ?? 0;
  const show = (value: number | null, words: (value: number) => string): string => (value === null ? "–" : words(value));
  return (
    <>
      <Waiting failure={failure} data={data} />
      <dl class="figures">
        <Figure name="Received" value={show(rate("in"), packetRate)} below={show(rate("in-bits"), bitRate)} />
        <Figure name="Sent" value={show(rate("out"), packetRate)} below={show(rate("out-bits"), bitRate)} />
        <Figure name="Dropped" value={show(rate("dropped"), packetRate)} below={`${counted(number(data.forwarder.conservation?.["dropped"]), "packet")} in total`} {...(dropped >= 1 ? { mood: "warn" as const } : {})} />
        <Figure name="Busiest worker" value={percent(busiest)} below={`${workers.length} in total`} {...(busiest > 0.9 ? { mood: "warn" as const } : {})} />
      </dl>
      <div class="cards">
        <Health list={problems(data, stands, rates)} />
        <Card title="Traffic" wide tools={<SpanChoice />}>
          {packets.times.length === 0 && <Notice mood="idle">The chart begins with the second sample.</Notice>}
          <div class="charts">
            <Chart title="Bits per second" lines={[RECEIVED, SENT]} series={bits} turn={at + seeded} unit={bitRate} />
            <Chart title="Packets per second" lines={[RECEIVED, SENT, DROPPED]} series={packets} turn={at + seeded} unit={packetRate} />
          </div>
        </Card>
        <Card title="Workers" tools={<a href={link("workers")}>Details</a>}>
          <ul class="lines">
            {workers.map((worker) => (
              <li>
                <span>Worker {worker.index}</span>
                <Bar share={number(worker.busy)} label={`Worker ${worker.index}`} words={percent(number(worker.busy))} />
              </li>
            ))}
          </ul>
        </Card>
        <TopDrops look={data} rates={rates} />
        <Limits limits={data.forwarder.limits?.limit ?? []} />
        <Facts it={data.forwarder} />
      </div>
    </>
  );
}
