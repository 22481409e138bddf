// Routes: the forwarder searches them, whatever their number.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useCell } from "../cell";
import { bytes, count, number } from "../figures";
import { Card, type Column, Faults, Field, State, Table, Waiting, typed } from "../parts";
import { usePoll } from "../poll";
import { family, prefix } from "../prefixes";
import { go, link, place } from "../route";
import { type Failure, call } from "../server";
import { type Rib, ribs } from "../yang";

const PAGE = 100;

interface Path {
  "outgoing-interface": string;
  "next-hop-address"?: string;
  weight?: number;
}

interface Route {
  "destination-prefix": string;
  "source-protocol": string;
  state: string;
  active?: boolean;
  reason?: string[];
  "special-next-hop"?: string;
  path?: Path[];
  packets?: string;
  octets?: string;
}

interface Found {
  "longest-match"?: Route;
  route?: Route[];
  more?: boolean;
  /** Time until the response. */
  took_ms: number;
}

const SPECIAL: Record<string, string> = {
  receive: "to this router",
  blackhole: "discarded silently",
  unreachable: "discarded, ICMP unreachable",
  prohibit: "discarded, ICMP prohibited",
};

function NextHop({ route }: { route: Route }): JSX.Element {
  const special = route["special-next-hop"];
  if (special) return <>{SPECIAL[special] ?? special}</>;
  const paths = route.path ?? [];
  if (paths.length === 0) return <>{(route.reason ?? ["no next hop is reachable"]).join(" ")}</>;
  return (
    <span class="stack">
      {paths.map((path) => (
        <span>
          {path["next-hop-address"] ? (
            <>
              <span class="mono">{path["next-hop-address"]}</span> by{" "}
            </>
          ) : (
            "on the link "
          )}
          <a href={link("interfaces", [path["outgoing-interface"]])}>{path["outgoing-interface"]}</a>
          {paths.length > 1 && <small> weight {path.weight ?? 1}</small>}
        </span>
      ))}
    </span>
  );
}

const COLUMNS: Column<Route>[] = [
  { name: "Prefix", show: (route) => <span class="mono">{route["destination-prefix"]}</span> },
  { name: "Next hop", show: (route) => <NextHop route={route} /> },
  { name: "State", show: (route) => <State mood={route.active ? (route.state === "active" ? "good" : "warn") : "bad"}>{route.state}</State> },
  { name: "From", extra: true, show: (route) => route["source-protocol"] },
  {
    name: "To its gateways",
    right: true,
    extra: true,
    show: (route) => (number(route.packets) > 0 ? `${count(number(route.packets))} packets, ${bytes(number(route.octets))}` : "–"),
  },
];

const size = (rib: Rib | undefined): number =>
  (rib?.["stoa-routing:route-counts"]?.protocol ?? []).reduce((sum, one) => sum + number(one.routes), 0);

/** The table of the address family of the search, in the same VRF. */
export function tableFor(table: string, text: string): string {
  const of = family(text.split("/")[0] ?? "");
  return of ? table.replace(/^ipv[46]/, `ipv${of}`) : table;
}

function Results({ table, search, after }: { table: string; search: string; after: string }): JSX.Element {
  const { data, failure } = usePoll<Found>(
    async () => {
      const begun = performance.now();
      const input = { table, limit: PAGE, ...(search && { prefix: search }), ...(after && { after }) };
      const found = await call<Omit<Found, "took_ms">>("stoa-forwarder:find-routes", input);
      return { ...found, took_ms: performance.now() - begun };
    },
    0,
    [table, search, after],
  );
  if (failure && failure.status >= 400 && failure.status < 500) return <Faults faults={(failure as Failure).faults} />;
  if (!data) return <Waiting failure={failure} data={data} />;
  const list = data.route ?? [];
  const last = list[list.length - 1]?.["destination-prefix"];
  const match = data["longest-match"];
  return (
    <>
      {search !== "" && after === "" && (
        <Card title="Longest match" note={`for ${search}`} wide>
          <Table caption="Longest match" columns={COLUMNS} rows={match ? [match] : []} mark={(route) => route["destination-prefix"]} none="No route matches: such packets are dropped." />
        </Card>
      )}
      <Card title={search === "" ? "All routes" : "The prefix and more specific routes"} note={`answered in ${Math.round(data.took_ms)} ms`} wide>
        <Table caption="Routes" columns={COLUMNS} rows={list} mark={(route) => route["destination-prefix"]} none="No routes." />
        <p class="pager">
          {after !== "" && <a href={link("routes", [], { table, search })}>First page</a>}
          {data.more && last && (
            <a class="button" href={link("routes", [], { table, search, after: last })}>
              Next {PAGE}
            </a>
          )}
          <span>
            {count(list.length)} shown{data.more ? ", more on the next page" : ""}
          </span>
        </p>
      </Card>
    </>
  );
}

export function Routes(): JSX.Element {
  const { query } = useCell(place);
  const table = query.get("table") ?? "ipv4-default";
  const search = query.get("search") ?? "";
  const after = query.get("after") ?? "";
  const [text, setText] = useState(search);
  const [why, setWhy] = useState("");
  useEffect(() => setText(search), [search]);
  const { data } = usePoll(ribs, 5_000, []);
  const list = data ?? [];
  const names = list.some((rib) => rib.name === table) ? list.map((rib) => rib.name) : [table, ...list.map((rib) => rib.name)];
  const send = (event: Event): void => {
    event.preventDefault();
    const entered = text.trim();
    if (entered !== "" && !prefix(entered)) {
      setWhy(`“${entered}” is neither an address nor a prefix: enter one like 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32.`);
      return;
    }
    setWhy("");
    go(link("routes", [], { table: tableFor(table, entered), search: entered }));
  };
  return (
    <>
      <Card title="Search" wide>
        <form class="row" onSubmit={send}>
          <Field label="Table">
            <select value={table} onChange={(event) => go(link("routes", [], { table: typed(event) }))}>
              {names.map((name) => (
                <option value={name}>
                  {name} ({count(size(list.find((rib) => rib.name === name)))})
                </option>
              ))}
            </select>
          </Field>
          <Field label="Address or prefix">
            <input type="search" value={text} onInput={(event) => setText(typed(event))} placeholder="192.0.2.1 or 10.0.0.0/8" spellcheck={false} autocapitalize="none" />
          </Field>
          <button class="main">Search</button>
        </form>
        {why && <p role="alert" class="wrong">{why}</p>}
      </Card>
      <Results table={table} search={search} after={after} />
    </>
  );
}
