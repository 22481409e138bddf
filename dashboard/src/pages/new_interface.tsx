// The form that creates an interface in the candidate: a port, a VLAN or a tunnel.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { copy, save } from "../candidate";
import type { Members } from "../edits";
import { TextField } from "../fields";
import { DRIVERS, type Kind, NEW_VRF, NOTHING, type Wish, add, complaint, nameOf, parents, vrfs } from "../new_interface";
import { Card, Faults, Field, typed } from "../parts";
import { go, link } from "../route";
import type { Failure } from "../server";

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
      <Field label="Driver">
        <select name="driver" value={wish.driver} onChange={(event) => set({ driver: typed(event), settings: {} })}>
          {Object.entries(DRIVERS).map(([name, { label }]) => (
            <option value={name}>{label}</option>
          ))}
        </select>
      </Field>
      {(DRIVERS[wish.driver]?.fields ?? []).map(({ leaf, label, hint, choices }) =>
        choices ? (
          <Field label={label}>
            <select name={leaf} value={wish.settings[leaf] ?? choices[0] ?? ""} onChange={(event) => change(leaf, typed(event))}>
              {choices.map((one) => (
                <option value={one}>{one}</option>
              ))}
            </select>
          </Field>
        ) : (
          <TextField key={`${wish.driver} ${leaf}`} name={leaf} label={label} {...(hint ? { hint } : {})} value={wish.settings[leaf] ?? ""} set={(text) => change(leaf, text)} isMono />
        ),
      )}
    </>
  );
}

function VlanFields({ wish, set, list }: Part & { list: string[] }): JSX.Element {
  return (
    <>
      <Field label="Port">
        <select name="parent" value={wish.parent} onChange={(event) => set({ parent: typed(event) })}>
          <option value="">choose …</option>
          {list.map((name) => (
            <option value={name}>{name}</option>
          ))}
        </select>
      </Field>
      <TextField name="vid" label="VLAN" hint="1 to 4094" value={wish.vid} set={(vid) => set({ vid })} isMono />
      <TextField name="inner" label="Inner VLAN (QinQ)" hint="if empty, packets have one tag" value={wish.inner} set={(inner) => set({ inner })} isMono />
      <label class="check">
        <input type="checkbox" checked={wish.isService} onChange={(event) => set({ isService: event.currentTarget.checked })} /> service tag (0x88a8)
      </label>
    </>
  );
}

function TunnelFields({ wish, set }: Part): JSX.Element {
  return (
    <>
      <Field label="Encapsulation">
        <select name="encapsulation" value={wish.encapsulation} onChange={(event) => set({ encapsulation: typed(event) })}>
          <option value="ip">IP in IP</option>
          <option value="gre">GRE</option>
        </select>
      </Field>
      <TextField name="local" label="Local address" hint="an address of this router" value={wish.local} set={(local) => set({ local })} isMono />
      <TextField name="remote" label="Remote address" hint="that of the other router" value={wish.remote} set={(remote) => set({ remote })} isMono />
    </>
  );
}

/** The choice of a VRF, with the name of a new one. */
export const VrfFields = (props: { list: string[]; vrf: string; newVrf: string; set: (part: { vrf?: string; newVrf?: string }) => void }): JSX.Element => (
  <>
    <Field label="VRF">
      <select name="vrf" value={props.vrf} onChange={(event) => props.set({ vrf: typed(event) })}>
        <option value="">default</option>
        {props.list.map((name) => (
          <option value={name}>{name}</option>
        ))}
        <option value={NEW_VRF}>a new VRF …</option>
      </select>
    </Field>
    {props.vrf === NEW_VRF && <TextField name="new-vrf" label="Name of the new VRF" value={props.newVrf} set={(newVrf) => props.set({ newVrf })} />}
  </>
);

export function NewInterface({ whole }: { whole: Members }): JSX.Element {
  const [wish, setWish] = useState(NOTHING);
  const [failure, setFailure] = useState<Failure>();
  const set = (part: Partial<Wish>): void => setWish({ ...wish, ...part });
  const wrong = complaint(wish, whole);
  const name = nameOf(wish);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const desired = copy(whole);
    add(desired, wish);
    setFailure(undefined);
    try {
      await save(whole, desired);
      go(link("configuration", ["interfaces", name]));
    } catch (error) {
      setFailure(error as Failure);
    }
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
        <TextField name="name" label="Name" value={wish.name} set={(text) => set({ name: text })} {...(wish.kind === "vlan" && name && !wish.name ? { hint: `if empty, ${name}` } : {})} isMono />
        {wish.kind === "port" && <PortFields wish={wish} set={set} />}
        {wish.kind === "vlan" && <VlanFields wish={wish} set={set} list={parents(whole)} />}
        {wish.kind === "tunnel" && <TunnelFields wish={wish} set={set} />}
        <TextField name="description" label="Description" value={wish.description} set={(description) => set({ description })} />
        {wish.kind !== "vlan" && <TextField name="mtu" label="MTU in bytes" hint="if empty, the default of the port" value={wish.mtu} set={(mtu) => set({ mtu })} isMono />}
        <VrfFields list={vrfs(whole)} vrf={wish.vrf} newVrf={wish.newVrf} set={set} />
        <label class="check">
          <input type="checkbox" checked={wish.forwards} onChange={(event) => set({ forwards: event.currentTarget.checked })} /> forwards IPv4 and IPv6 packets
        </label>
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
