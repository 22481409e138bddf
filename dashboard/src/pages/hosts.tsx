// Hosts that have logged in.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { bytes, count, duration, number } from "../figures";
import { Card, type Column, Field, Table, Waiting, typed } from "../parts";
import { usePoll } from "../poll";
import { type HostLogin, hostLogins } from "../protocols";
import { link } from "../route";
import { since } from "./daemons";

const ROWS = 500;

const COLUMNS: Column<HostLogin>[] = [
  { name: "Host", show: (it) => <span class="mono">{it["mac-address"]}</span> },
  { name: "Interface", show: (it) => <a href={link("interfaces", [it.interface])}>{it.interface}</a> },
  { name: "User", show: (it) => it.user ?? "–" },
  { name: "By", show: (it) => it.method ?? "–" },
  { name: "Since", show: (it) => since(it.since) },
  { name: "Idle", right: true, show: (it) => (it.idle === undefined ? "–" : duration(it.idle)) },
  { name: "Time left", right: true, show: (it) => (it.remaining === undefined ? "–" : duration(it.remaining)) },
  { name: "Volume left", right: true, extra: true, show: (it) => (it["remaining-octets"] === undefined ? "–" : bytes(number(it["remaining-octets"]))) },
  { name: "Sent", right: true, show: (it) => bytes(number(it["in-octets"])) },
  { name: "Received", right: true, show: (it) => bytes(number(it["out-octets"])) },
];

export function Hosts(): JSX.Element {
  const [search, setSearch] = useState("");
  const { data, failure } = usePoll(hostLogins, 2_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const query = search.trim().toLowerCase();
  const found = data.filter((it) => `${it["mac-address"]} ${it.interface} ${it.user ?? ""}`.toLowerCase().includes(query));
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Card title={`${count(found.length)} of ${count(data.length)} hosts that have logged in`} wide>
        <Field label="Search by address, interface or user">
          <input type="search" value={search} onInput={(event) => setSearch(typed(event))} />
        </Field>
        <Table caption="Hosts" columns={COLUMNS} rows={found.slice(0, ROWS)} mark={(it) => `${it.interface} ${it["mac-address"]}`} none="No host has logged in." />
        {found.length > ROWS && <p class="none">Only the first {ROWS} are shown: use the search for others.</p>}
      </Card>
    </>
  );
}
