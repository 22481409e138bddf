// The forms of BFD sessions.
import type { JSX } from "preact";
import { SESSION_NODES, type SessionEntry, type SessionField, type SessionKey, type SessionWish } from "../bfd_session";
import { put, remove, review, sessionAt, sessionPath, sessionsOf, wishOf } from "../bfd_session";
import type { Members } from "../edits";
import { ChoiceField, TextField, named } from "../fields";
import { interfaceNames } from "../interface_list";
import type { Column } from "../parts";
import { type EntryKind, EntryTable, type FormPart, linkTo } from "./entry_form";

const SESSION: EntryKind<SessionKey, SessionEntry, SessionWish, SessionField> = {
  tab: "bfd",
  name: "BFD session",
  inWords: (key) => `BFD session with ${key.peer} on ${key.interface}`,
  inShort: (key) => key.peer,
  toUrl: (key) => [key.interface, key.peer],
  fromUrl: ([name, peer, ...more]) => (name !== undefined && peer !== undefined && more.length === 0 ? { interface: name, peer } : undefined),
  path: sessionPath,
  find: sessionAt,
  wishOf,
  wishKey: (wish) => wish,
  nodes: () => SESSION_NODES,
  review,
  put,
  remove,
};

const Fields = ({ whole, field }: FormPart<SessionWish, SessionField>): JSX.Element => (
  <>
    <div class="pair">
      <ChoiceField {...field("interface")} label="Interface" choices={named(interfaceNames(whole))} />
      <TextField {...field("peer")} label="Address of the neighbour" hint="on the link of the interface" isMono />
    </div>
    <div class="pair">
      <TextField {...field("transmit")} label="Send every (ms)" hint="if empty, 300; the neighbour may require longer ones" isMono isNumber />
      <TextField {...field("receive")} label="Receive at most every (ms)" hint="if empty, 300" isMono isNumber />
      <TextField {...field("multiplier")} label="Multiplier" hint="lost packets after which the neighbour declares the session down; if empty, 3" isMono isNumber />
    </div>
  </>
);

const COLUMNS: Column<SessionEntry>[] = [
  { name: "Neighbour", show: ({ key }) => <a class="mono" href={linkTo(SESSION, key)}>{key.peer}</a> },
  { name: "Interface", show: ({ key }) => key.interface },
  { name: "Sends every", right: true, show: (one) => `${wishOf(one).transmit || "300"} ms` },
  { name: "Receives every", right: true, extra: true, show: (one) => `${wishOf(one).receive || "300"} ms` },
  { name: "Multiplier", right: true, extra: true, show: (one) => wishOf(one).multiplier || "3" },
];

const NOTE = "with neighbours; a session that is down takes their routes out of use";

export const BfdForms = (props: { whole: Members; segments: string[] }): JSX.Element => (
  <EntryTable {...props} kind={SESSION} fields={Fields} title="BFD sessions" note={NOTE} columns={COLUMNS} rows={sessionsOf(props.whole)} />
);
