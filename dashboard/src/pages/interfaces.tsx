// All interfaces with their state and rates.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { bitRate, number, packetRate } from "../figures";
import { Card, type Column, Field, type Mood, Stack, State, Table, Waiting, typed } from "../parts";
import { usePoll } from "../poll";
import { Meter } from "../rates";
import { link } from "../route";
import { largest, sparkline } from "../sparkline";
import { type Rates, history } from "../traffic";
import { type Family, type Interface, interfaces } from "../yang";

/** Maximum number of rows: use the search for others. */
const ROWS = 200;

/** The state of an interface. */
export function stateOf(one: Interface): { mood: Mood; words: string } {
  if (one["admin-status"] === "down" || one.enabled === false) return { mood: "idle", words: "disabled" };
  const state = one["oper-status"];
  if (state === undefined) return { mood: "warn", words: "unknown" };
  return state === "up" ? { mood: "good", words: "up" } : { mood: "bad", words: state };
}

/** The addresses of both families. */
export const addressesOf = (one: Interface): string[] =>
  [one["ietf-ip:ipv4"], one["ietf-ip:ipv6"]].flatMap((family: Family | undefined) => (family?.address ?? []).map((it) => `${it.ip}/${it["prefix-length"]}`));

/** The counters of interfaces, by interface and counter name. */
export function countersOf(list: Interface[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const one of list) {
    const counted = one.statistics ?? {};
    const put = (name: string, value: number): void => void found.set(`${one.name} ${name}`, value);
    put("in", number(counted["stoa-interfaces:in-pkts"]));
    put("out", number(counted["stoa-interfaces:out-pkts"]));
    put("in-bits", 8 * number(counted["in-octets"]));
    put("out-bits", 8 * number(counted["out-octets"]));
    put("drops", number(counted["in-discards"]) + number(counted["out-discards"]) + number(counted["stoa-interfaces:in-missed"]));
  }
  return found;
}

/** Size of a sparkline. */
const [WIDTH, HEIGHT] = [112, 26];
/** Interval of a sparkline's values, and between two requests for them, in seconds. */
const MINUTE_S = 60;

function Sparkline({ rates }: { rates: Rates | undefined }): JSX.Element {
  if (!rates) return <span class="note">–</span>;
  const lines = [rates["in-bits"], rates["out-bits"]];
  // Both have the same scale.
  const most = largest(...lines);
  const words = `Last hour: at most ${bitRate(most)}`;
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} role="img" aria-label={words}>
      <title>{words}</title>
      {lines.map((line, at) => (
        <path class={at === 0 ? "in" : "out"} d={sparkline(line, most, WIDTH, HEIGHT)} />
      ))}
    </svg>
  );
}

/** The traffic of the last hour of the listed interfaces, read again every minute. */
function useSparks(names: string[]): Map<string, Rates> {
  const { data } = usePoll(async () => (names.length > 0 ? (await history(names, MINUTE_S)).interfaces : new Map<string, Rates>()), MINUTE_S * 1_000, [names.join(" ")]);
  return data ?? new Map<string, Rates>();
}

export function Interfaces(): JSX.Element {
  const [search, setSearch] = useState("");
  const meter = useRef(new Meter());
  const { data, failure, at } = usePoll(interfaces, 1_000, []);
  const rates = data && at > 0 ? meter.current.take(countersOf(data), at) : meter.current.current;
  const rate = (one: Interface, name: string, words: (value: number) => string): string => {
    const value = rates.get(`${one.name} ${name}`);
    return value === undefined ? "–" : words(value);
  };
  const query = search.trim().toLowerCase();
  const found = (data ?? []).filter((one) => `${one.name} ${one.description ?? ""} ${addressesOf(one).join(" ")}`.toLowerCase().includes(query));
  const names = found.slice(0, ROWS).map((one) => one.name);
  const sparks = useSparks(names);
  const columns: Column<Interface>[] = [
    {
      name: "Interface",
      show: (one) => (
        <>
          <a href={link("interfaces", [one.name])}>{one.name}</a>
          {one.description && <small class="under">{one.description}</small>}
        </>
      ),
    },
    { name: "State", show: (one) => <State mood={stateOf(one).mood}>{stateOf(one).words}</State> },
    { name: "Last hour", show: (one) => <Sparkline rates={sparks.get(one.name)} /> },
    { name: "Addresses", show: (one) => <Stack texts={addressesOf(one)} isMono /> },
    { name: "Received", right: true, show: (one) => <span class="stack">{rate(one, "in-bits", bitRate)}<small>{rate(one, "in", packetRate)}</small></span> },
    { name: "Sent", right: true, show: (one) => <span class="stack">{rate(one, "out-bits", bitRate)}<small>{rate(one, "out", packetRate)}</small></span> },
    { name: "Dropped", right: true, show: (one) => rate(one, "drops", packetRate) },
    {
      name: "Port",
      extra: true,
      show: (one) => {
        const port = one["stoa-interfaces:port-state"] ?? {};
        return (
          <span class="stack">
            {port.driver ?? one["lower-layer-if"]?.map((name) => `on ${name}`).join() ?? ""}
            {port.mtu ? <small class="nowrap">MTU {port.mtu} B</small> : null}
          </span>
        );
      },
    },
  ];
  if (!data) return <Waiting failure={failure} data={data} />;
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Card title={`${found.length} of ${data.length}`} wide tools={
          <>
            <a href={link("configuration", ["new"])}>New interface</a> · <a href={link("configuration", ["interfaces"])}>Configure</a>
          </>
        }>
        {data.length > 8 && (
          <Field label="Search by name, description or address">
            <input type="search" value={search} onInput={(event) => setSearch(typed(event))} />
          </Field>
        )}
        <Table caption="Interfaces" columns={columns} rows={found.slice(0, ROWS)} mark={(one) => one.name} none="No such interface." />
        {found.length > ROWS && <p class="none">Only the first {ROWS} are shown: use the search for others.</p>}
      </Card>
    </>
  );
}
