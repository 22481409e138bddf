// Neighbours and their link-layer addresses.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count, duration } from "../figures";
import { Card, type Column, Field, type Mood, State, Table, Waiting, typed } from "../parts";
import { usePoll } from "../poll";
import { link } from "../route";
import { type Interface, type Neighbor, interfaces } from "../yang";

const ROWS = 500;

interface Row extends Neighbor {
  interface: string;
}

/** The neighbours of interfaces, both families. */
export const neighborsOf = (list: Interface[]): Row[] =>
  list.flatMap((one) =>
    [one["ietf-ip:ipv4"], one["ietf-ip:ipv6"]].flatMap((family) => (family?.neighbor ?? []).map((it) => ({ ...it, interface: one.name }))),
  );

const MOODS: Record<string, Mood> = { reachable: "good", permanent: "good", stale: "idle", delay: "warn", probe: "warn", incomplete: "warn", failed: "bad" };

const COLUMNS: Column<Row>[] = [
  { name: "Address", show: (it) => <span class="mono">{it.ip}</span> },
  { name: "Link-layer address", show: (it) => <span class="mono">{it["link-layer-address"] ?? "–"}</span> },
  { name: "Interface", show: (it) => <a href={link("interfaces", [it.interface])}>{it.interface}</a> },
  {
    name: "State",
    show: (it) => {
      const state = it["stoa-interfaces:neighbor-state"] ?? "configured";
      return <State mood={MOODS[state] ?? "idle"}>{state}</State>;
    },
  },
  {
    name: "Confirmed",
    right: true,
    show: (it) => (it["stoa-interfaces:neighbor-state"] === "permanent" || it["stoa-interfaces:age"] === undefined ? "–" : `${duration(it["stoa-interfaces:age"])} ago`),
  },
  { name: "Queued", right: true, extra: true, show: (it) => `${count(it["stoa-interfaces:queued"] ?? 0)} packets` },
];

export const NeighborTable = ({ list }: { list: Row[] }): JSX.Element => (
  <Table caption="Neighbours" columns={COLUMNS} rows={list} mark={(it) => `${it.interface} ${it.ip}`} none="No neighbours." />
);

export function Neighbors(): JSX.Element {
  const [search, setSearch] = useState("");
  const { data, failure } = usePoll(interfaces, 2_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const all = neighborsOf(data);
  const query = search.trim().toLowerCase();
  const found = all.filter((it) => `${it.ip} ${it["link-layer-address"] ?? ""} ${it.interface} ${it["stoa-interfaces:neighbor-state"] ?? ""}`.toLowerCase().includes(query));
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Card title={`${count(found.length)} of ${count(all.length)}`} wide>
        <Field label="Search by address, interface or state">
          <input type="search" value={search} onInput={(event) => setSearch(typed(event))} />
        </Field>
        <NeighborTable list={found.slice(0, ROWS)} />
        {found.length > ROWS && <p class="none">Only the first {ROWS} are shown: use the search for others.</p>}
      </Card>
    </>
  );
}
