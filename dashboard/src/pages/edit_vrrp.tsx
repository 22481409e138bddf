// The forms of virtual routers.
import type { JSX } from "preact";
import type { Members } from "../edits";
import { CheckField, ChoiceField, type Control, Input, Rows, Select, TextField, named } from "../fields";
import { type Saving, useDraft, useSave } from "../form_state";
import { interfaceNames } from "../interface_list";
import { Card, type Column, Table } from "../parts";
import { link } from "../route";
import { type Family, type RouterEntry, type RouterField, type RouterKey, type RouterWish, addressesOf, links, put, remove } from "../virtual_router";
import { review, routerAt, routerNodes, routerPath, routersOf, versionOf, wishOf } from "../virtual_router";
import { EntryForm, NotThere, Saved, useFaults, wrongAt } from "./entry_form";

const FAMILIES: [Family, string][] = [
  ["4", "IPv4"],
  ["6", "IPv6"],
];

const inWords = (key: RouterKey): string => `virtual router ${key.vrid} for IPv${key.family} on ${key.interface}`;
const linkTo = (key: RouterKey): string => link("configuration", ["vrrp", key.interface, key.family, String(key.vrid)]);

interface Part {
  wish: RouterWish;
  set: (part: Partial<RouterWish>) => void;
  wrong: (field: RouterField) => string | undefined;
}

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
  props: Part & { field: "interfaces" | "networks"; what: "interface" | "network"; legend: string; hint: string; add: string; show: (control: Control<string>) => JSX.Element },
): JSX.Element => (
  <Rows
    legend={props.legend}
    hint={`${props.hint}, the priority is less by its decrement (10)`}
    rows={props.wish[props.field]}
    set={(rows) => props.set({ [props.field]: rows })}
    empty={{ name: "", decrement: "" }}
    add={props.add}
    nameOf={(row) => row.name}
    wrong={props.wrong(props.field)}
    wrongAt={(index) => props.wrong(`${props.field} ${index}`)}
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

function Election({ wish, set, wrong }: Part): JSX.Element {
  const version = versionOf(wish);
  return (
    <>
      <div class="pair">
        <TextField
          name="priority"
          label="Priority"
          hint="1 to 254, the highest is active; if empty, 100"
          value={wish.priority}
          set={(priority) => set({ priority })}
          isMono
          isNumber
          wrong={wrong("priority")}
        />
        <TextField
          name="interval"
          label="Advertisement every (s)"
          hint={version === "2" ? "1 to 254; if empty, 1" : "0.01 to 40.95; if empty, 1"}
          value={wish.interval}
          set={(interval) => set({ interval })}
          isMono
          isNumber
          wrong={wrong("interval")}
        />
        <TextField name="hold" label="Preempt after (s)" hint="if empty, at once" value={wish.hold} set={(hold) => set({ hold })} isMono isNumber wrong={wrong("hold")} />
      </div>
      <CheckField name="preempt" label="preempt: take over from a router with a lower priority" value={wish.preempt} set={(preempt) => set({ preempt })} wrong={wrong("preempt")} />
      {version === "3" && <CheckField name="accept" label="accept: answer pings to the addresses" value={wish.accept} set={(accept) => set({ accept })} wrong={wrong("accept")} />}
      <CheckField name="log" label="log changes of state" value={wish.log} set={(log) => set({ log })} wrong={wrong("log")} />
    </>
  );
}

/** The form of the virtual router `before`, or of a new one. */
function RouterForm({ whole, before, saving }: { whole: Members; before?: RouterKey; saving: Saving }): JSX.Element {
  const draft = useDraft(before ? routerPath(before) : "", wishOf(before && routerAt(whole, before)));
  const wish = draft.form;
  const set = (part: Partial<RouterWish>): void => draft.set({ ...wish, ...part });
  const complaints = review(wish, whole, before);
  const found = useFaults(saving, routerNodes(wish), before && routerPath(before));
  const wrong = (field: RouterField): string | undefined => wrongAt(complaints, found, field);
  const key = { interface: wish.interface, family: wish.family, vrid: Number(wish.vrid) };
  const part = { wish, set, wrong };
  return (
    <EntryForm
      title={before ? `Change ${inWords(before)}` : "New virtual router"}
      tab="vrrp"
      draft={draft}
      complaints={complaints}
      found={found}
      isNew={before === undefined}
      what={before ? `virtual router ${before.vrid}` : ""}
      save={() => saving.change(`The ${inWords(key)} is saved in the candidate.`, (desired) => put(desired, wish, before))}
      remove={() => saving.change(`The ${inWords(before ?? key)} is removed from the candidate.`, (desired) => before && remove(desired, before))}
    >
      <div class="pair">
        <ChoiceField
          name="interface"
          label="Interface"
          value={wish.interface}
          set={(name) => set({ interface: name })}
          choices={named(links(whole))}
          wrong={wrong("interface")}
        />
        <ChoiceField name="family" label="Address family" value={wish.family} set={(family) => set({ family })} choices={FAMILIES} />
        <TextField name="vrid" label="VRID" hint="1 to 255, the same on all its routers" value={wish.vrid} set={(vrid) => set({ vrid })} isMono isNumber wrong={wrong("vrid")} />
        {wish.family === "4" && (
          <ChoiceField
            name="version"
            label="Version"
            value={wish.version}
            set={(version) => set({ version })}
            choices={[
              ["3", "3 (RFC 9568)"],
              ["2", "2 (RFC 3768)"],
            ]}
            wrong={wrong("version")}
          />
        )}
      </div>
      <Addresses {...part} />
      <Election {...part} />
      <TrackedRows
        {...part}
        field="interfaces"
        what="interface"
        legend="Tracked interfaces"
        hint="while one is down"
        add="Track an interface"
        show={(control) => <Select {...control} choices={named(interfaceNames(whole))} />}
      />
      <TrackedRows
        {...part}
        field="networks"
        what="network"
        legend="Tracked networks"
        hint="while there is no usable route to exactly this prefix"
        add="Track a network"
        show={(control) => <Input {...control} isMono />}
      />
    </EntryForm>
  );
}

const COLUMNS: Column<RouterEntry>[] = [
  {
    name: "Virtual router",
    show: (one) => (
      <>
        <a href={linkTo(one.key)}>{one.key.vrid}</a>
        <small class="under">
          IPv{one.key.family}, version {wishOf(one).version}
        </small>
      </>
    ),
  },
  { name: "Interface", show: ({ key }) => key.interface },
  {
    name: "Addresses",
    show: (one) => (
      <span class="stack mono">
        {addressesOf(one).map((text) => (
          <span>{text}</span>
        ))}
      </span>
    ),
  },
  { name: "Priority", right: true, show: (one) => wishOf(one).priority || "100" },
  { name: "Tracks", extra: true, show: (one) => [...wishOf(one).interfaces, ...wishOf(one).networks].map((row) => row.name).join(", ") || "–" },
  {
    name: "",
    right: true,
    show: ({ key }) => (
      <a class="button" href={linkTo(key)} aria-label={`Edit the ${inWords(key)}`}>
        Edit
      </a>
    ),
  },
];

export function VrrpForms({ whole, keys }: { whole: Members; keys: string[] }): JSX.Element {
  const saving = useSave(whole, keys.join(" "));
  const [name = "", family = "", vrid = ""] = keys;
  const chosen: RouterKey | undefined = keys.length === 3 ? { interface: name, family: family === "6" ? "6" : "4", vrid: Number(vrid) } : undefined;
  const isThere = chosen !== undefined && routerAt(whole, chosen) !== undefined;
  return (
    <>
      {name === "new" && keys.length === 1 && <RouterForm key="new" whole={whole} saving={saving} />}
      {chosen && isThere && <RouterForm key={routerPath(chosen)} whole={whole} before={chosen} saving={saving} />}
      {chosen && !isThere && <NotThere words={inWords(chosen)} tab="vrrp" />}
      <Saved words={saving.saved} />
      <Card
        title="Virtual routers"
        note="gateway addresses that several routers share (VRRP)"
        wide
        tools={
          <a class="button" href={link("configuration", ["vrrp", "new"])}>
            New virtual router
          </a>
        }
      >
        <Table caption="Virtual routers" columns={COLUMNS} rows={routersOf(whole)} mark={({ key }) => `${key.interface} ${key.family} ${key.vrid}`} none="The candidate has no virtual router." />
      </Card>
    </>
  );
}
