// The forms of BFD sessions.
import type { JSX } from "preact";
import { SESSION_NODES, type SessionEntry, type SessionField, type SessionKey, put, remove, review, sessionAt, sessionPath, sessionsOf, wishOf } from "../bfd_session";
import type { Members } from "../edits";
import { ChoiceField, TextField, named } from "../fields";
import { type Saving, useDraft, useSave } from "../form_state";
import { interfaceNames } from "../interface_list";
import { Card, type Column, Table } from "../parts";
import { link } from "../route";
import { EntryForm, NotThere, Saved, useFaults, wrongAt } from "./entry_form";

const inWords = (key: SessionKey): string => `BFD session with ${key.peer} on ${key.interface}`;
const linkTo = (key: SessionKey): string => link("configuration", ["bfd", key.interface, key.peer]);

/** The form of the session `before`, or of a new one. */
function SessionForm({ whole, before, saving }: { whole: Members; before?: SessionKey; saving: Saving }): JSX.Element {
  const draft = useDraft(before ? sessionPath(before) : "", wishOf(before && sessionAt(whole, before)));
  const wish = draft.form;
  const set = (part: Partial<typeof wish>): void => draft.set({ ...wish, ...part });
  const complaints = review(wish, whole, before);
  const found = useFaults(saving, SESSION_NODES, before && sessionPath(before));
  const wrong = (field: SessionField): string | undefined => wrongAt(complaints, found, field);
  return (
    <EntryForm
      title={before ? `Change ${inWords(before)}` : "New BFD session"}
      tab="bfd"
      draft={draft}
      complaints={complaints}
      found={found}
      isNew={before === undefined}
      what={before?.peer ?? ""}
      save={() => saving.change(`The ${inWords(wish)} is saved in the candidate.`, (desired) => put(desired, wish, before))}
      remove={() => saving.change(`The ${inWords(before ?? wish)} is removed from the candidate.`, (desired) => before && remove(desired, before))}
    >
      <div class="pair">
        <ChoiceField name="interface" label="Interface" value={wish.interface} set={(name) => set({ interface: name })} choices={named(interfaceNames(whole))} wrong={wrong("interface")} />
        <TextField name="peer" label="Address of the neighbour" hint="on the link of the interface" value={wish.peer} set={(peer) => set({ peer })} isMono wrong={wrong("peer")} />
      </div>
      <div class="pair">
        <TextField
          name="transmit"
          label="Send every (ms)"
          hint="if empty, 300; the neighbour may require longer ones"
          value={wish.transmit}
          set={(transmit) => set({ transmit })}
          isMono
          isNumber
          wrong={wrong("transmit")}
        />
        <TextField name="receive" label="Receive at most every (ms)" hint="if empty, 300" value={wish.receive} set={(receive) => set({ receive })} isMono isNumber wrong={wrong("receive")} />
        <TextField
          name="multiplier"
          label="Multiplier"
          hint="lost packets after which the neighbour declares the session down; if empty, 3"
          value={wish.multiplier}
          set={(multiplier) => set({ multiplier })}
          isMono
          isNumber
          wrong={wrong("multiplier")}
        />
      </div>
    </EntryForm>
  );
}

const COLUMNS: Column<SessionEntry>[] = [
  { name: "Neighbour", show: ({ key }) => <a class="mono" href={linkTo(key)}>{key.peer}</a> },
  { name: "Interface", show: ({ key }) => key.interface },
  { name: "Sends every", right: true, show: (one) => `${wishOf(one).transmit || "300"} ms` },
  { name: "Receives every", right: true, extra: true, show: (one) => `${wishOf(one).receive || "300"} ms` },
  { name: "Multiplier", right: true, extra: true, show: (one) => wishOf(one).multiplier || "3" },
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

export function BfdForms({ whole, keys }: { whole: Members; keys: string[] }): JSX.Element {
  const saving = useSave(whole, keys.join(" "));
  const [name = "", peer = ""] = keys;
  const chosen = keys.length === 2 ? { interface: name, peer } : undefined;
  const isThere = chosen !== undefined && sessionAt(whole, chosen) !== undefined;
  return (
    <>
      {name === "new" && keys.length === 1 && <SessionForm key="new" whole={whole} saving={saving} />}
      {chosen && isThere && <SessionForm key={sessionPath(chosen)} whole={whole} before={chosen} saving={saving} />}
      {chosen && !isThere && <NotThere words={inWords(chosen)} tab="bfd" />}
      <Saved words={saving.saved} />
      <Card
        title="BFD sessions"
        note="with neighbours; a session that is down takes their routes out of use"
        wide
        tools={
          <a class="button" href={link("configuration", ["bfd", "new"])}>
            New BFD session
          </a>
        }
      >
        <Table caption="BFD sessions" columns={COLUMNS} rows={sessionsOf(whole)} mark={({ key }) => `${key.interface} ${key.peer}`} none="The candidate has no BFD session." />
      </Card>
    </>
  );
}
