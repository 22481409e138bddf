// The form that creates an interface in the candidate: a port, a VLAN or a tunnel.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Members } from "../edits";
import { CheckField, ChoiceField, TextField, named } from "../fields";
import { useSave } from "../form_state";
import { DRIVERS, type Kind, NEW_VRF, NOTHING, type Wish, add, complaint, nameOf, parents, vrfs } from "../new_interface";
import { Card, Faults } from "../parts";
import { go, link } from "../route";

const KINDS: [Kind, string][] = [
  ["port", "Port"],
  ["vlan", "VLAN of a port"],
  ["tunnel", "Tunnel"],
];

interface Part {
  wish: Wish;
  set: (part: Partial<Wish>) => void;
}

function PortFields({ wish, set }: Part): JSX.Element {
  const change = (leaf: string, text: string): void => set({ settings: { ...wish.settings, [leaf]: text } });
  return (
    <>
      <ChoiceField
        name="driver"
        label="Driver"
        value={wish.driver}
        set={(driver) => set({ driver, settings: {} })}
        choices={Object.entries(DRIVERS).map(([name, { label }]) => [name, label])}
      />
      {(DRIVERS[wish.driver]?.fields ?? []).map(({ leaf, label, hint, choices }) =>
        choices ? (
          <ChoiceField name={leaf} label={label} value={wish.settings[leaf] ?? choices[0] ?? ""} set={(value) => change(leaf, value)} choices={named(choices)} />
        ) : (
          <TextField key={`${wish.driver} ${leaf}`} name={leaf} label={label} hint={hint} value={wish.settings[leaf] ?? ""} set={(text) => change(leaf, text)} isMono />
        ),
      )}
    </>
  );
}

function VlanFields({ wish, set, list }: Part & { list: string[] }): JSX.Element {
  return (
    <>
      <ChoiceField name="parent" label="Port" value={wish.parent} set={(parent) => set({ parent })} choices={[["", "choose …"], ...named(list)]} />
      <TextField name="vid" label="VLAN" hint="1 to 4094" value={wish.vid} set={(vid) => set({ vid })} isMono />
      <TextField name="inner" label="Inner VLAN (QinQ)" hint="if empty, packets have one tag" value={wish.inner} set={(inner) => set({ inner })} isMono />
      <CheckField name="service-tag" label="service tag (0x88a8)" value={wish.isService} set={(isService) => set({ isService })} />
    </>
  );
}

function TunnelFields({ wish, set }: Part): JSX.Element {
  return (
    <>
      <ChoiceField
        name="encapsulation"
        label="Encapsulation"
        value={wish.encapsulation}
        set={(encapsulation) => set({ encapsulation })}
        choices={[["ip", "IP in IP"], ["gre", "GRE"]]}
      />
      <TextField name="local" label="Local address" hint="an address of this router" value={wish.local} set={(local) => set({ local })} isMono />
      <TextField name="remote" label="Remote address" hint="that of the other router" value={wish.remote} set={(remote) => set({ remote })} isMono />
    </>
  );
}

/** The choice of a VRF, with the name of a new one. */
export const VrfFields = (props: { list: string[]; vrf: string; newVrf: string; set: (part: { vrf?: string; newVrf?: string }) => void }): JSX.Element => (
  <>
    <ChoiceField name="vrf" label="VRF" value={props.vrf} set={(vrf) => props.set({ vrf })} choices={[["", "default"], ...named(props.list), [NEW_VRF, "a new VRF …"]]} />
    {props.vrf === NEW_VRF && <TextField name="new-vrf" label="Name of the new VRF" value={props.newVrf} set={(newVrf) => props.set({ newVrf })} />}
  </>
);

export function NewInterface({ whole }: { whole: Members }): JSX.Element {
  const [wish, setWish] = useState(NOTHING);
  const { failure, change } = useSave(whole, "");
  const set = (part: Partial<Wish>): void => setWish({ ...wish, ...part });
  const wrong = complaint(wish, whole);
  const name = nameOf(wish);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (await change("", (desired) => add(desired, wish))) go(link("configuration", ["interfaces", name]));
  };
  return (
    <Card title="New interface" note="in the candidate; addresses follow in its form" wide>
      <form class="column" onSubmit={(event) => void send(event)}>
        <fieldset class="kinds">
          <legend>Kind</legend>
          {KINDS.map(([kind, words]) => (
            <label class="check">
              <input type="radio" name="kind" value={kind} checked={wish.kind === kind} onChange={() => set({ kind })} /> {words}
            </label>
          ))}
        </fieldset>
        <TextField name="name" label="Name" value={wish.name} set={(text) => set({ name: text })} hint={wish.kind === "vlan" && name && !wish.name ? `if empty, ${name}` : undefined} isMono />
        {wish.kind === "port" && <PortFields wish={wish} set={set} />}
        {wish.kind === "vlan" && <VlanFields wish={wish} set={set} list={parents(whole)} />}
        {wish.kind === "tunnel" && <TunnelFields wish={wish} set={set} />}
        <TextField name="description" label="Description" value={wish.description} set={(description) => set({ description })} />
        {wish.kind !== "vlan" && <TextField name="mtu" label="MTU in bytes" hint="if empty, the default of the port" value={wish.mtu} set={(mtu) => set({ mtu })} isMono />}
        <VrfFields list={vrfs(whole)} vrf={wish.vrf} newVrf={wish.newVrf} set={set} />
        <CheckField name="forwards" label="forwards IPv4 and IPv6 packets" value={wish.forwards} set={(forwards) => set({ forwards })} />
        {wrong && <p class="note">{wrong}</p>}
        <span class="buttons">
          <button class="main" disabled={wrong !== ""}>
            Create in the candidate
          </button>
        </span>
      </form>
      <Faults faults={failure?.faults ?? []} />
    </Card>
  );
}
