// The form of static routes.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { at, below, entries } from "../candidate";
import type { Members } from "../edits";
import { ChoiceField, TextField, named } from "../fields";
import { useSave } from "../form_state";
import { interfaceNames } from "../interface_list";
import { putLeaf, textOf } from "../leaves";
import { Card, type Column, Faults, Field, Table, typed } from "../parts";
import { REFUSALS } from "../policy_rule";
import { canonicalPrefix, family, hostBitsComplaint, prefix } from "../prefixes";
import { Saved } from "./entry_form";

const PROTOCOLS = ["ietf-routing:routing", "control-plane-protocols"];
/** Maximum number of rows; the JSON has all routes. */
const ROWS = 200;
type Version = 4 | 6;
const familyName = (version: Version): string => `ietf-ipv${version}-unicast-routing:ipv${version}`;

interface Row {
  protocol: string;
  version: Version;
  route: Members;
}

const prefixOf = (row: Row): string => textOf(row.route, "destination-prefix");

/** All static routes of a configuration. */
function rowsOf(whole: Members): Row[] {
  const protocols = entries(at(whole, ...PROTOCOLS), "control-plane-protocol");
  return protocols.flatMap((protocol) =>
    ([4, 6] as const).flatMap((version) =>
      entries(at(protocol, "static-routes", familyName(version)), "route").map((route) => ({ protocol: textOf(protocol, "name"), version, route })),
    ),
  );
}

function hopOf(route: Members): string {
  const hop = at(route, "next-hop") ?? {};
  const one = (it: Members): string =>
    [it["next-hop-address"], it["outgoing-interface"] ? `by ${String(it["outgoing-interface"])}` : ""].filter(Boolean).join(" ");
  if (hop["special-next-hop"]) return String(hop["special-next-hop"]);
  const list = entries(at(hop, "next-hop-list"), "next-hop");
  return list.length > 0 ? list.map(one).join(", ") : one(hop);
}

interface Wish {
  prefix: string;
  special: string;
  address: string;
  interface: string;
  description: string;
}

export const NOTHING: Wish = { prefix: "", special: "", address: "", interface: "", description: "" };

/** The error in the form. */
export function complaint(wish: Wish): string {
  const read = prefix(wish.prefix);
  if (!read || !wish.prefix.includes("/")) return "Enter a prefix, such as 10.0.0.0/8 or 2001:db8::/32.";
  const hostBits = hostBitsComplaint(wish.prefix);
  if (hostBits !== "" || wish.special !== "") return hostBits;
  if (wish.address === "" && wish.interface === "") return "Enter the next hop, or the interface of a connected destination.";
  if (wish.address !== "" && family(wish.address) !== read.family) return `The next hop must be an IPv${read.family} address, like the prefix.`;
  return "";
}

/** Adds a route to a configuration, or replaces it. */
export function add(whole: Members, wish: Wish): void {
  const version = prefix(wish.prefix)?.family ?? 4;
  const protocols = below(whole, ...PROTOCOLS);
  const list = entries(protocols, "control-plane-protocol");
  let mine = list.find((it) => it["type"] === "ietf-routing:static");
  if (!mine) {
    mine = { type: "ietf-routing:static", name: "main" };
    protocols["control-plane-protocol"] = [...list, mine];
  }
  const routes = below(mine, "static-routes", familyName(version));
  const hop: Members = wish.special
    ? { "special-next-hop": wish.special }
    : { ...(wish.address && { "next-hop-address": wish.address }), ...(wish.interface && { "outgoing-interface": wish.interface }) };
  const destination = canonicalPrefix(wish.prefix);
  const route: Members = { "destination-prefix": destination, ...(wish.description && { description: wish.description }), "next-hop": hop };
  routes["route"] = [...entries(routes, "route").filter((it) => it["destination-prefix"] !== destination), route];
}

function remove(whole: Members, row: Row): void {
  const protocols = entries(at(whole, ...PROTOCOLS), "control-plane-protocol");
  const mine = protocols.find((it) => it["name"] === row.protocol);
  const routes = at(mine, "static-routes", familyName(row.version));
  if (!routes) return;
  const left = entries(routes, "route").filter((it) => it["destination-prefix"] !== row.route["destination-prefix"]);
  putLeaf(routes, "route", left.length > 0 ? left : undefined);
}

const RouteFields = ({ whole, wish, set }: { whole: Members; wish: Wish; set: (part: Partial<Wish>) => void }): JSX.Element => (
  <>
    <TextField name="prefix" label="Prefix" value={wish.prefix} set={(text) => set({ prefix: text })} placeholder="10.0.0.0/8" isMono />
    <ChoiceField name="special" label="Packets" value={wish.special} set={(special) => set({ special })} choices={[["", "go to a next hop"], ...REFUSALS]} />
    {wish.special === "" && (
      <>
        <TextField name="address" label="Next hop" value={wish.address} set={(text) => set({ address: text.trim() })} placeholder="192.0.2.1" isMono />
        <ChoiceField
          name="interface"
          label="Interface"
          value={wish.interface}
          set={(name) => set({ interface: name })}
          choices={[["", "where the next hop is"], ...named(interfaceNames(whole))]}
        />
      </>
    )}
    <TextField name="description" label="Description" value={wish.description} set={(description) => set({ description })} />
  </>
);

export function RouteForm({ whole }: { whole: Members }): JSX.Element {
  const [wish, setWish] = useState(NOTHING);
  const [search, setSearch] = useState("");
  const { failure, saved, change } = useSave(whole, "");
  const all = rowsOf(whole);
  const found = all.filter((row) => `${prefixOf(row)} ${hopOf(row.route)} ${textOf(row.route, "description")}`.includes(search.trim()));
  const create = async (): Promise<void> => {
    if (await change(`${wish.prefix} is saved in the candidate.`, (desired) => add(desired, wish))) setWish(NOTHING);
  };
  const wrong = complaint(wish);
  const set = (part: Partial<Wish>): void => setWish({ ...wish, ...part });
  const columns: Column<Row>[] = [
    { name: "Prefix", show: (row) => <span class="mono">{prefixOf(row)}</span> },
    { name: "Next hop", show: (row) => <span class="mono">{hopOf(row.route)}</span> },
    { name: "Description", extra: true, show: (row) => textOf(row.route, "description") },
    {
      name: "",
      right: true,
      show: (row) => (
        <button
          onClick={() => void change(`${prefixOf(row)} is removed from the candidate.`, (desired) => remove(desired, row))}
          aria-label={`Remove ${prefixOf(row)}`}
        >
          Remove
        </button>
      ),
    },
  ];
  return (
    <>
      <Card title="Add a route" wide>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            void create();
          }}
        >
          <RouteFields whole={whole} wish={wish} set={set} />
          <button class="main" disabled={wrong !== ""}>
            Save to candidate
          </button>
        </form>
        {wish.prefix !== "" && wrong && <p class="wrong">{wrong}</p>}
        <Faults faults={failure?.faults ?? []} />
        <Saved words={saved} />
      </Card>
      <Card title={`${found.length} static routes`} wide>
        {all.length > 10 && (
          <Field label="Search">
            <input type="search" value={search} onInput={(event) => setSearch(typed(event))} />
          </Field>
        )}
        <Table caption="Static routes" columns={columns} rows={found.slice(0, ROWS)} mark={(row) => `${row.protocol} ${prefixOf(row)}`} none="No routes." />
        {found.length > ROWS && <p class="none">Only the first {ROWS} are shown: use the search for others.</p>}
      </Card>
    </>
  );
}
