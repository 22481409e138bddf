// The forms of virtual routers.
import type { JSX } from "preact";
import type { Members } from "../edits";
import { CheckField, ChoiceField, type Control, Input, Rows, Select, TextField, named } from "../fields";
import { interfaceNames } from "../interface_list";
import { type Column, Stack } from "../parts";
import { type Family, type RouterEntry, type RouterField, type RouterKey, type RouterWish, addressesOf, links, wishKey } from "../virtual_router";
import { put, remove, review, routerAt, routerNodes, routerPath, routersOf, versionOf, wishOf } from "../virtual_router";
import { type EntryKind, EntryTable, type FormPart, linkTo } from "./entry_form";

const FAMILIES: [Family, string][] = [
  ["4", "IPv4"],
  ["6", "IPv6"],
];

/** Versions of VRRP. */
const VERSIONS: [RouterWish["version"], string][] = [
  ["3", "3 (RFC 9568)"],
  ["2", "2 (RFC 3768)"],
];

const ROUTER: EntryKind<RouterKey, RouterEntry, RouterWish, RouterField> = {
  tab: "vrrp",
  name: "virtual router",
  inWords: (key) => `virtual router ${key.vrid} for IPv${key.family} on ${key.interface}`,
  inShort: (key) => `virtual router ${key.vrid}`,
  toUrl: (key) => [key.interface, key.family, String(key.vrid)],
  fromUrl: ([name = "", family, vrid, ...more]) => (vrid !== undefined && more.length === 0 ? { interface: name, family: family === "6" ? "6" : "4", vrid: Number(vrid) } : undefined),
  path: routerPath,
  find: routerAt,
  wishOf,
  wishKey,
  nodes: routerNodes,
  review,
  put,
  remove,
};

type Part = FormPart<RouterWish, RouterField>;

const Addresses = ({ wish, set, wrong }: Part): JSX.Element => (
  <Rows
    legend="Virtual addresses"
    hint={wish.family === "4" ? "in a subnet of the interface" : "one of them link-local, which hosts use as their gateway"}
    rows={wish.addresses}
    set={(addresses) => set({ addresses })}
    empty=""
    add="Add a virtual address"
    nameOf={(text) => text}
    wrong={wrong("addresses")}
    wrongAt={(index) => wrong(`addresses ${index}`)}
    show={(text, index, change, invalid) => <Input name="address" value={text} set={change} aria-label={`Virtual address ${index + 1}`} isMono {...invalid} />}
  />
);

/** Tracked interfaces or networks: `show` shows which one. */
const TrackedRows = (
  props: Part & { list: "interfaces" | "networks"; what: "interface" | "network"; legend: string; hint: string; add: string; show: (control: Control<string>) => JSX.Element },
): JSX.Element => (
  <Rows
    legend={props.legend}
    hint={`${props.hint}, the priority is less by its decrement (10)`}
    rows={props.wish[props.list]}
    set={(rows) => props.set({ [props.list]: rows })}
    empty={{ name: "", decrement: "" }}
    add={props.add}
    nameOf={(row) => row.name}
    wrong={props.wrong(props.list)}
    wrongAt={(index) => props.wrong(`${props.list} ${index}`)}
    show={(row, index, change, invalid) => (
      <>
        {props.show({ value: row.name, set: (name) => change({ ...row, name }), name: `tracked-${props.what}`, "aria-label": `Tracked ${props.what} ${index + 1}`, ...invalid })}
        <Input
          name={`${props.what}-decrement`}
          value={row.decrement}
          set={(decrement) => change({ ...row, decrement })}
          aria-label={`Decrement of tracked ${props.what} ${index + 1}`}
          placeholder="10"
          inputMode="decimal"
          isMono
        />
      </>
    )}
  />
);

const Election = ({ wish, field }: Part): JSX.Element => (
  <>
    <div class="pair">
      <TextField {...field("priority")} label="Priority" hint="1 to 254, the highest is active; if empty, 100" isMono isNumber />
      <TextField {...field("interval")} label="Advertisement every (s)" hint={versionOf(wish) === "2" ? "1 to 254; if empty, 1" : "0.01 to 40.95; if empty, 1"} isMono isNumber />
      <TextField {...field("hold")} label="Preempt after (s)" hint="if empty, at once" isMono isNumber />
    </div>
    <CheckField {...field("preempt")} label="preempt: take over from a router with a lower priority" />
    {versionOf(wish) === "3" && <CheckField {...field("accept")} label="accept: answer pings to the addresses" />}
    <CheckField {...field("log")} label="log changes of state" />
  </>
);

const Fields = (part: Part): JSX.Element => (
  <>
    <div class="pair">
      <ChoiceField {...part.field("interface")} label="Interface" choices={named(links(part.whole))} />
      <ChoiceField {...part.field("family")} label="Address family" choices={FAMILIES} />
      <TextField {...part.field("vrid")} label="VRID" hint="1 to 255, the same on all its routers" isMono isNumber />
      {part.wish.family === "4" && <ChoiceField {...part.field("version")} label="Version" choices={VERSIONS} />}
    </div>
    <Addresses {...part} />
    <Election {...part} />
    <TrackedRows
      {...part}
      list="interfaces"
      what="interface"
      legend="Tracked interfaces"
      hint="while one is down"
      add="Track an interface"
      show={(control) => <Select {...control} choices={named(interfaceNames(part.whole))} />}
    />
    <TrackedRows
      {...part}
      list="networks"
      what="network"
      legend="Tracked networks"
      hint="while there is no usable route to exactly this prefix"
      add="Track a network"
      show={(control) => <Input {...control} isMono />}
    />
  </>
);

const COLUMNS: Column<RouterEntry>[] = [
  {
    name: "Virtual router",
    show: (one) => (
      <>
        <a href={linkTo(ROUTER, one.key)}>{one.key.vrid}</a>
        <small class="under">
          IPv{one.key.family}, version {wishOf(one).version}
        </small>
      </>
    ),
  },
  { name: "Interface", show: ({ key }) => key.interface },
  { name: "Addresses", show: (one) => <Stack texts={addressesOf(one)} isMono /> },
  { name: "Priority", right: true, show: (one) => wishOf(one).priority || "100" },
  { name: "Tracks", extra: true, show: (one) => [...wishOf(one).interfaces, ...wishOf(one).networks].map((row) => row.name).join(", ") || "–" },
];

const NOTE = "gateway addresses that several routers share (VRRP)";

export const VrrpForms = (props: { whole: Members; segments: string[] }): JSX.Element => (
  <EntryTable {...props} kind={ROUTER} fields={Fields} title="Virtual routers" note={NOTE} columns={COLUMNS} rows={routersOf(props.whole)} />
);
