// The form of an interface, for frequent changes.
import type { JSX } from "preact";
import { at, below, entries } from "../candidate";
import type { Members } from "../edits";
import { CheckField, ChoiceField, Input, Rows, TextField, named } from "../fields";
import { useDraft, useSave } from "../form_state";
import { INTERFACES, PORT, interfaceAt, interfaceNames } from "../interface_list";
import { numberOf, putChanged, putLeaf, textOf } from "../leaves";
import { Card, Faults, Notice } from "../parts";
import { NEW_VRF, VRF, addVrf, mtuComplaint, vrfComplaint, vrfs } from "../new_interface";
import { canonical, prefix } from "../prefixes";
import { go, link } from "../route";
import { Saved, Stale } from "./entry_form";
import { VrfFields } from "./new_interface";

type Version = 4 | 6;
const nameOf = (version: Version): string => `ietf-ip:ipv${version}`;

/** The values of the form. */
interface Form {
  enabled: boolean;
  description: string;
  /** That of the port; "": the default. */
  mtu: string;
  vrf: string;
  newVrf: string;
  4: FamilyForm;
  6: FamilyForm;
}

interface FamilyForm {
  forwarding: boolean;
  addresses: string[];
}

function familyOf(one: Members, version: Version): FamilyForm {
  const family = at(one, nameOf(version));
  const addresses = entries(family, "address").map((it) => `${textOf(it, "ip")}/${textOf(it, "prefix-length")}`);
  return { forwarding: family?.["forwarding"] === true, addresses };
}

export const formOf = (one: Members): Form => ({
  enabled: one["enabled"] !== false,
  description: textOf(one, "description"),
  mtu: textOf(at(one, PORT), "mtu"),
  vrf: textOf(one, VRF),
  newVrf: "",
  4: familyOf(one, 4),
  6: familyOf(one, 6),
});

/** Sets MTU and VRF. */
function putLink(whole: Members, one: Members, form: Form): void {
  const port = at(one, PORT);
  if (port) putLeaf(port, "mtu", numberOf(form.mtu));
  putLeaf(one, VRF, addVrf(whole, form.vrf, form.newVrf));
}

/** Sets the values of the form in the interface; other nodes stay. */
export function put(one: Members, form: Form, before: Form): void {
  putChanged(one, "enabled", form.enabled, before.enabled, true);
  putLeaf(one, "description", form.description.trim() && form.description);
  for (const version of [4, 6] as const) {
    const desired = form[version];
    const texts = desired.addresses.map((text) => text.trim()).filter((text) => text !== "");
    const isThere = at(one, nameOf(version)) !== undefined;
    if (!isThere && texts.length === 0 && !desired.forwarding) continue;
    const family = below(one, nameOf(version));
    putChanged(family, "forwarding", desired.forwarding, before[version].forwarding, false);
    const old = entries(family, "address");
    const list = texts.map((text) => {
      const read = prefix(text);
      const ip = canonical(read?.address ?? text);
      const known = old.find((it) => it["ip"] === ip);
      return { ...known, ip, "prefix-length": read?.length ?? 0 };
    });
    putLeaf(family, "address", list.length > 0 ? list : undefined);
  }
}

/** The error in an address. */
const complaint = (text: string, version: Version): string => {
  if (text.trim() === "") return "";
  const read = prefix(text);
  if (!read || read.family !== version) return `Enter an IPv${version} address with a prefix length, such as ${version === 4 ? "192.0.2.1/24" : "2001:db8::1/64"}.`;
  return text.includes("/") ? "" : "Add the prefix length, such as /24.";
};

const Family = ({ version, form, set }: { version: Version; form: FamilyForm; set: (form: FamilyForm) => void }): JSX.Element => (
  <Rows
    legend={`IPv${version}`}
    rows={form.addresses}
    set={(addresses) => set({ ...form, addresses })}
    empty=""
    add={`Add an IPv${version} address`}
    nameOf={(text) => text || "this address"}
    wrongAt={(index) => complaint(form.addresses[index] ?? "", version)}
    show={(text, index, change, invalid) => <Input name={`ipv${version}-address`} value={text} set={change} aria-label={`IPv${version} address ${index + 1}`} isMono {...invalid} />}
  >
    <CheckField name={`ipv${version}-forwarding`} label={`forwards IPv${version} packets`} value={form.forwarding} set={(forwarding) => set({ ...form, forwarding })} />
  </Rows>
);

export function InterfaceForm({ whole, chosen }: { whole: Members; chosen: string }): JSX.Element {
  const names = interfaceNames(whole);
  const name = chosen || (names[0] ?? "");
  const one = interfaceAt(whole, name);
  const before = one && formOf(one);
  const draft = useDraft(name, before);
  const { form } = draft;
  const set = (part: Partial<Form>): void => form && draft.set({ ...form, ...part });
  const { failure, saved, change } = useSave(whole, name);
  const create = (
    <a class="button" href={link("configuration", ["new"])}>
      New interface
    </a>
  );
  if (names.length === 0) return <Notice mood="idle">The candidate has no interface. {create}</Notice>;
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    await change(`${name} is saved in the candidate.`, (desired) => {
      const mine = interfaceAt(desired, name);
      if (!mine || !form || !before) return;
      put(mine, form, before);
      putLink(desired, mine, form);
    });
  };
  const remove = (): Promise<boolean> =>
    change(`${name} is removed from the candidate.`, (desired) => {
      const all = below(desired, INTERFACES);
      all["interface"] = entries(all, "interface").filter((it) => it["name"] !== name);
    });
  const linkWrong = form && (mtuComplaint(form.mtu) || (form.vrf === NEW_VRF ? vrfComplaint(form.newVrf, whole) : ""));
  const isWrong = form !== undefined && ([4, 6] as const).some((version) => form[version].addresses.some((text) => complaint(text, version) !== ""));
  return (
    <Card title="Interface" wide tools={create}>
      <form class="column" onSubmit={(event) => void send(event)}>
        <ChoiceField name="interface" label="Name" value={name} set={(other) => go(link("configuration", ["interfaces", other]))} choices={named(names)} />
        {form ? (
          <>
            <CheckField name="enabled" label="enabled" value={form.enabled} set={(enabled) => set({ enabled })} />
            <TextField name="description" label="Description" value={form.description} set={(description) => set({ description })} />
            {one && at(one, PORT) && (
              <TextField name="mtu" label="MTU in bytes" hint="if empty, the default of the port" value={form.mtu} set={(mtu) => set({ mtu })} isMono isNumber />
            )}
            <VrfFields list={vrfs(whole)} vrf={form.vrf} newVrf={form.newVrf} set={set} />
            {linkWrong && <p class="wrong">{linkWrong}</p>}
            <Family version={4} form={form[4]} set={(family) => set({ 4: family })} />
            <Family version={6} form={form[6]} set={(family) => set({ 6: family })} />
            <Stale draft={draft} what={name} />
            <span class="buttons">
              <button class="main" disabled={isWrong || Boolean(linkWrong) || !draft.isChanged}>
                Save to candidate
              </button>
              <a class="button" href={link("configuration", ["commit"])}>
                Changes and commit
              </a>
              <button type="button" onClick={() => void remove()}>
                Remove {name}
              </button>
            </span>
          </>
        ) : (
          <Notice mood="warn">The candidate has no interface {name}.</Notice>
        )}
      </form>
      <Faults faults={failure?.faults ?? []} />
      <Saved words={saved} />
    </Card>
  );
}
