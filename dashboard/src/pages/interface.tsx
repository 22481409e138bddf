// One interface: traffic, counters, configuration and state.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Chart, DROPPED, RECEIVED, SENT, SpanChoice } from "../chart";
import { bitRate, count, duration, moment, number, packetRate } from "../figures";
import { Card, Notice, State, Waiting } from "../parts";
import { usePoll } from "../poll";
import { Meter, Series } from "../rates";
import { link } from "../route";
import { history, seed, useReturns } from "../traffic";
import { type Interface as InterfaceData, oneInterface } from "../yang";
import { countersOf, stateOf } from "./interfaces";
import { NeighborTable, neighborsOf } from "./neighbors";

const COUNTERS: [string, string, string][] = [
  ["in-octets", "Received", "B"],
  ["stoa-interfaces:in-pkts", "Received", "packets"],
  ["in-discards", "Dropped after receive", "packets"],
  ["stoa-interfaces:in-missed", "Missed by the port", "packets"],
  ["out-octets", "Sent", "B"],
  ["stoa-interfaces:out-pkts", "Sent", "packets"],
  ["out-discards", "Dropped before transmit", "packets"],
];

function Counters({ one }: { one: InterfaceData }): JSX.Element {
  const since = one.statistics?.["discontinuity-time"];
  return (
    <Card title="Counters" {...(since ? { note: `since ${moment(String(since))}` } : {})}>
      <dl class="facts">
        {COUNTERS.map(([name, words, unit]) => (
          <div>
            <dt>{words}</dt>
            <dd class="mono">
              {count(number(one.statistics?.[name]))} {unit}
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function Facts({ one }: { one: InterfaceData }): JSX.Element {
  const port = one["stoa-interfaces:port-state"] ?? {};
  const state = stateOf(one);
  const since = one["last-change"];
  const age = since ? (Date.now() - new Date(since).getTime()) / 1000 : 0;
  const list = (family: "ietf-ip:ipv4" | "ietf-ip:ipv6"): JSX.Element[] =>
    (one[family]?.address ?? []).map((it) => {
      const status = it.status ?? it["stoa-interfaces:status"];
      return (
        <span>
          <span class="mono">
            {it.ip}/{it["prefix-length"]}
          </span>{" "}
          {status && status !== "preferred" && <small>{status}</small>}
        </span>
      );
    });
  const rows: [string, JSX.Element | string | undefined][] = [
    ["State", <State mood={state.mood}>{state.words}{since ? ` for ${duration(age)}` : ""}</State>],
    ["Description", one.description],
    ["IPv4", <span class="stack">{list("ietf-ip:ipv4")}</span>],
    ["IPv6", <span class="stack">{list("ietf-ip:ipv6")}</span>],
    ["Link-layer address", <span class="mono">{one["phys-address"] ?? "–"}</span>],
    ["MTU", port.mtu ? `${port.mtu} B` : undefined],
    ["Driver", port.driver],
    ["Driver", port.detail],
    ["Queues", port.driver ? `${port["rx-queues"] ?? 0} receive, ${port["tx-queues"] ?? 0} transmit` : undefined],
    ["Parent interface", one["lower-layer-if"]?.map((name) => <a href={link("interfaces", [name])}>{name}</a>)[0]],
  ];
  return (
    <Card title="State">
      <dl class="facts">
        {rows.map(([name, value]) =>
          value === undefined ? null : (
            <div>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
      </dl>
    </Card>
  );
}

export function Interface({ name }: { name: string }): JSX.Element {
  const meter = useRef(new Meter());
  const bits = useRef(new Series(2));
  const packets = useRef(new Series(3));
  const [seeded, setSeeded] = useState(0);
  const { data, failure, at } = usePoll((signal) => oneInterface(name, signal), 1_000, [name]);
  const rates = data && at > 0 ? meter.current.take(countersOf([data]), at) : meter.current.current;
  const rate = (counter: string): number | null => rates.get(`${name} ${counter}`) ?? null;
  useEffect(() => {
    if (at === 0 || rates.size === 0) return;
    const now = Date.now() / 1000;
    bits.current.add(now, [rate("in-bits"), rate("out-bits")]);
    packets.current.add(now, [rate("in"), rate("out"), rate("drops")]);
  }, [at]);
  useReturns(async () => {
    const { times, interfaces } = await history([name]);
    const mine = interfaces.get(name);
    if (mine) seed(bits.current, packets.current, times, mine);
    setSeeded(performance.now());
  }, [name]);
  if (!data) {
    return failure?.status === 404 ? (
      <Notice mood="warn">
        No interface {name}. <a href={link("interfaces")}>All interfaces</a>
      </Notice>
    ) : (
      <Waiting failure={failure} data={data} />
    );
  }
  return (
    <>
      <p class="crumbs">
        <a href={link("interfaces")}>All interfaces</a> · <a href={link("configuration", ["interfaces", name])}>Configure</a> ·{" "}
        <a href={link("capture", [], { interface: name })}>Capture here</a>
      </p>
      <Waiting failure={failure} data={data} />
      <div class="cards">
        <Card title="Traffic" wide tools={<SpanChoice />}>
          <div class="charts">
            <Chart title="Bits per second" lines={[RECEIVED, SENT]} series={bits.current} turn={at + seeded} unit={bitRate} />
            <Chart title="Packets per second" lines={[RECEIVED, SENT, { ...DROPPED, name: "dropped, missed" }]} series={packets.current} turn={at + seeded} unit={packetRate} />
          </div>
        </Card>
        <Facts one={data} />
        <Counters one={data} />
        <Card title="Neighbours" wide>
          <NeighborTable list={neighborsOf([data])} />
        </Card>
        <Card title="All data" note="from RESTCONF" wide>
          <details>
            <summary>Configuration and state as JSON</summary>
            <pre tabIndex={0}>{JSON.stringify(data, null, 2)}</pre>
          </details>
        </Card>
      </div>
    </>
  );
}
