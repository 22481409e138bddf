import assert from "node:assert/strict";
import { test } from "node:test";
import { type SessionKey, type SessionWish, put, remove, review, sessionAt, sessionsOf, wishOf } from "../src/bfd_session";
import { type Members, edits } from "../src/edits";
import { modelOf } from "../src/model";
import { changed, errorsOf } from "./configurations";

const LIST = "/restconf/data/ietf-interfaces:interfaces/interface";
const model = modelOf({ [`${LIST}={interface-name}`]: {}, [`${LIST}={interface-name}/stoa-bfd:bfd/session={session-dest-addr}`]: {} });
const bfd = (...sessions: Members[]): Members => ({ "stoa-bfd:bfd": { session: sessions } });
const whole = (lan: Members = {}, wan: Members = {}): Members => ({ "ietf-interfaces:interfaces": { interface: [{ name: "lan", ...lan }, { name: "wan", ...wan }] } });
const wish = (part: Partial<SessionWish>): SessionWish => ({ ...wishOf(), interface: "lan", peer: "192.0.2.1", ...part });
const words = (part: Partial<SessionWish>, old = whole(), before?: SessionKey): string[] => errorsOf(review(wish(part), old, before));

test("intervals are milliseconds in the form, and microseconds in the router", () => {
  const made = changed(whole(), (next) => put(next, wish({ peer: " 192.0.2.1 ", transmit: "50.5", receive: "100", multiplier: "5" })));
  const session = { "dest-addr": "192.0.2.1", "local-multiplier": 5, "desired-min-tx-interval": 50_500, "required-min-rx-interval": 100_000 };
  assert.deepEqual(made, whole(bfd(session)));
  assert.deepEqual(wishOf(sessionsOf(made)[0]), wish({ transmit: "50.5", receive: "100", multiplier: "5" }));
});

test("an emptied field means the default; other nodes stay", () => {
  const old = whole(bfd({ "dest-addr": "192.0.2.1", "local-multiplier": 5, "m:other": 1 }, { "dest-addr": "192.0.2.2" }));
  const key = { interface: "lan", peer: "192.0.2.1" };
  const desired = changed(old, (next) => put(next, { ...wishOf(sessionAt(old, key)), multiplier: "" }, key));
  const found = edits(old, desired, model);
  assert.deepEqual([found.merge, found.remove], [undefined, ["ietf-interfaces:interfaces/interface=lan/stoa-bfd:bfd/session=192.0.2.1/local-multiplier"]]);
});

test("a session moves to another interface; one whose address is written anew stays", () => {
  const old = whole(bfd({ "dest-addr": "fe80::1", "local-multiplier": 5 }));
  const key = { interface: "lan", peer: "fe80::1" };
  const moved = changed(old, (next) => put(next, { ...wishOf(sessionAt(old, key)), interface: "wan" }, key));
  assert.deepEqual(moved, whole(bfd(), bfd({ "dest-addr": "fe80::1", "local-multiplier": 5 })));
  const anew = changed(old, (next) => put(next, { ...wishOf(sessionAt(old, key)), peer: "FE80::0:1" }, key));
  assert.deepEqual(anew, old);
});

test("a session is removed alone", () => {
  const old = whole(bfd({ "dest-addr": "192.0.2.1" }, { "dest-addr": "192.0.2.2" }));
  assert.deepEqual(changed(old, (next) => remove(next, { interface: "lan", peer: "192.0.2.1" })), whole(bfd({ "dest-addr": "192.0.2.2" })));
});

test("missing and wrong values are errors", () => {
  assert.deepEqual(words({}), []);
  assert.match(words({ interface: "" }).join(), /Choose the interface/);
  assert.match(words({ peer: "" }).join(), /address of the neighbour/);
  assert.match(words({ peer: "192.0.2" }).join(), /IPv4 or IPv6/);
  assert.match(words({ peer: "FE80::1" }, whole(bfd({ "dest-addr": "fe80::1" }))).join(), /already/);
  assert.deepEqual(words({}, whole(bfd({ "dest-addr": "192.0.2.1" })), { interface: "lan", peer: "192.0.2.1" }), []);
  assert.match(words({ transmit: "9.999" }).join(), /10 to 60000/);
  assert.deepEqual(words({ transmit: "60000", receive: "10" }), []);
  assert.match(words({ receive: "10.0001" }).join(), /10 to 60000/);
  assert.match(words({ multiplier: "256" }).join(), /1 to 255/);
});
