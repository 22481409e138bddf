// The BFD session that its form edits: stoa-bfd.
import { at, below, copy, entries } from "./candidate";
import { quoted } from "./data_path";
import type { Members } from "./edits";
import type { FieldNode } from "./field_faults";
import { INTERFACES, interfaceAt, interfacesOf } from "./interface_list";
import { Review, numberOf, putLeaf, textOf } from "./leaves";
import { isBetween, isScaledBetween, scaled, unscaled } from "./numbers";
import { canonical, family } from "./prefixes";

const BFD = "stoa-bfd:bfd";
/** The limits of intervals in microseconds. */
const [SHORTEST_US, LONGEST_US] = [10_000, 60_000_000];
/** Decimal places of milliseconds in microseconds. */
const MS = 3;

/** The values of the form. */
export interface SessionWish {
  interface: string;
  peer: string;
  /** Milliseconds; "": the default. */
  transmit: string;
  receive: string;
  multiplier: string;
}

export type SessionField = keyof SessionWish;

export interface SessionKey {
  interface: string;
  peer: string;
}

/** A session of a configuration. */
export interface SessionEntry {
  key: SessionKey;
  session: Members;
}

/** The sessions of a configuration. */
export const sessionsOf = (whole: Members): SessionEntry[] =>
  interfacesOf(whole).flatMap((one) =>
    entries(at(one, BFD), "session").map((session) => ({ key: { interface: textOf(one, "name"), peer: textOf(session, "dest-addr") }, session })),
  );

const isSame = (one: SessionKey, other: SessionKey): boolean => one.interface === other.interface && canonical(one.peer) === canonical(other.peer);

export const sessionAt = (whole: Members, key: SessionKey): SessionEntry | undefined => sessionsOf(whole).find((one) => isSame(one.key, key));

const ms = (session: Members | undefined, name: string): string => (session?.[name] === undefined ? "" : unscaled(Number(session[name]), MS));

/** The form of a session; without one, that of a new session. */
export const wishOf = (entry?: SessionEntry): SessionWish => ({
  interface: entry?.key.interface ?? "",
  peer: entry?.key.peer ?? "",
  transmit: ms(entry?.session, "desired-min-tx-interval"),
  receive: ms(entry?.session, "required-min-rx-interval"),
  multiplier: textOf(entry?.session, "local-multiplier"),
});

/** What is wrong in the form of the session `before`; `undefined`: of a new one. */
export function review(wish: SessionWish, whole: Members, before?: SessionKey): Review<SessionField> {
  const found = new Review<SessionField>();
  found.require(wish.interface, "Choose the interface to the neighbour.");
  found.require(wish.peer, "Enter the address of the neighbour.");
  found.checkText("peer", wish.peer, family(wish.peer.trim()) !== undefined, "Enter an IPv4 or IPv6 address.");
  const other = sessionAt(whole, wish);
  if (other && !(before && isSame(other.key, before))) found.check("peer", `There is a session with ${other.key.peer} on ${wish.interface} already.`);
  for (const field of ["transmit", "receive"] as const) {
    const isRight = isScaledBetween(wish[field], MS, SHORTEST_US, LONGEST_US);
    found.checkText(field, wish[field], isRight, "Enter milliseconds from 10 to 60000, or nothing for the default of 300.");
  }
  found.checkText("multiplier", wish.multiplier, isBetween(wish.multiplier, 1, 255), "Enter a multiplier from 1 to 255, or nothing for the default of 3.");
  return found;
}

export function remove(whole: Members, key: SessionKey): void {
  const bfd = at(interfaceAt(whole, key.interface), BFD);
  if (bfd) bfd["session"] = entries(bfd, "session").filter((one) => canonical(textOf(one, "dest-addr")) !== canonical(key.peer));
}

/** Adds the session to a configuration, or changes the session `before`. */
export function put(whole: Members, wish: SessionWish, before?: SessionKey): void {
  const one = interfaceAt(whole, wish.interface);
  if (!one) return;
  const old = before && sessionAt(whole, before)?.session;
  const session: Members = old ? copy(old) : {};
  session["dest-addr"] = canonical(wish.peer);
  putLeaf(session, "local-multiplier", numberOf(wish.multiplier));
  putLeaf(session, "desired-min-tx-interval", scaled(wish.transmit, MS));
  putLeaf(session, "required-min-rx-interval", scaled(wish.receive, MS));
  if (before) remove(whole, before);
  const bfd = below(one, BFD);
  bfd["session"] = [...entries(bfd, "session"), session];
}

/** The data path of a session. */
export const sessionPath = (key: SessionKey): string => `/${INTERFACES}/interface[name=${quoted(key.interface)}]/${BFD}/session[dest-addr='${key.peer}']`;

const SESSION = `/${INTERFACES}/interface/${BFD}/session`;

/** The nodes of the form. */
export const SESSION_NODES: FieldNode[] = [
  [SESSION, "peer"],
  [`${SESSION}/desired-min-tx-interval`, "transmit"],
  [`${SESSION}/required-min-rx-interval`, "receive"],
  [`${SESSION}/local-multiplier`, "multiplier"],
];
