import assert from "node:assert/strict";
import { test } from "node:test";
import { endpoint, reasons, sourceState, staleWords } from "../src/pages/daemons";
import { merged } from "../src/pages/log";
import { problems } from "../src/pages/overview";
import { action, conditions } from "../src/pages/policy";
import { bfdState } from "../src/pages/sessions";
import { virtualAddresses, vrrpState } from "../src/pages/vrrp";
import type { Protocol, Session } from "../src/protocols";

const source = (session: Session | undefined, rest = {}): Protocol => ({
  type: "stoa-routing:fpm",
  name: "zebra",
  "stoa-routing:route-source": { "fpm-address": "127.0.0.1", "fpm-port": 2620, "stale-time": 120, ...(session && { session }), ...rest },
});

test("the state of a route source has a word", () => {
  assert.equal(sourceState(source({ open: true, "up-since": new Date().toISOString() })).mood, "good");
  assert.equal(sourceState(source({ open: true, state: "begun", "up-since": new Date().toISOString() })).mood, "warn");
  assert.deepEqual(sourceState(source({ open: true, state: "ended" })), { mood: "bad", words: "no session" });
  assert.deepEqual(sourceState(source({ open: true, state: "awaited" })), { mood: "warn", words: "no daemon has connected yet" });
  assert.deepEqual(sourceState(source({ open: false })), { mood: "bad", words: "not open" });
  assert.equal(sourceState(source(undefined)).mood, "warn");
  assert.equal(endpoint(source({})), "127.0.0.1:2620");
  assert.equal(endpoint(source({}, { "fpm-address": "::1", netns: "frr" })), "[::1]:2620 in frr");
});

test("stale routes are counted, with the time that they have", () => {
  assert.equal(staleWords(source({ open: true, "stale-routes": "0" })), undefined);
  assert.equal(staleWords(source({ open: true, "stale-routes": "900000", "stale-time-left": 61 })), "900\u202f000 stale routes, removed in 1 min 1 s");
  assert.equal(staleWords(source({ open: true, "stale-routes": "1" })), "1 stale route");
  assert.deepEqual(reasons(source({ open: true, reason: "no zebra", "last-refusal": "user 1000", malformed: "2", resyncs: "0" })), [
    "no zebra",
    "refused a connection: user 1000",
    "2 malformed messages",
  ]);
});

test("rules are shown in words", () => {
  const rule = { vrf: "default", "address-family": "ipv4" as const, priority: 100 };
  const match = { "source-prefix": "10.0.0.0/8", protocol: 17, "destination-port": { "lower-port": 53, "upper-port": 53 }, dscp: 0 };
  assert.deepEqual(conditions({ ...rule, match }), ["from 10.0.0.0/8", "DSCP 0", "UDP", "destination port 53"]);
  assert.deepEqual(conditions(rule), ["all packets"]);
  assert.equal(action({ ...rule, table: "red", "ignore-default": true }), "table red, without its default route");
  assert.equal(action({ ...rule, goto: 200 }), "continue at priority 200");
  assert.equal(action({ ...rule, refuse: "blackhole" }), "drop silently");
});

test("sessions and virtual routers have a state", () => {
  const bfd = (state: string, failed: boolean) => bfdState({ interface: "lan", "dest-addr": "10.0.0.2", "session-running": { "local-state": state, failed } }).mood;
  assert.deepEqual([bfd("up", false), bfd("down", true), bfd("down", false), bfd("admin-down", false)], ["good", "bad", "warn", "idle"]);
  const router = { interface: "lan", family: 6 as const, vrid: 7, state: "ietf-vrrp:master", "virtual-ipv6-addresses": { "virtual-ipv6-address": [{ "ipv6-address": "fe80::1" }] } };
  assert.equal(vrrpState(router).words, "active (master)");
  assert.deepEqual(virtualAddresses(router), ["fe80::1"]);
});

test("an event of the stream and of the state is one", () => {
  const event = (time: string, words: string) => ({ time, mood: "idle" as const, what: "interface", words });
  const seen = [event("2026-01-01T10:00:01.5Z", "lan went up")];
  const before = [event("2026-01-01T10:00:00Z", "lan went up"), event("2026-01-01T09:00:00Z", "lan went up"), event("2026-01-01T11:00:00Z", "wan went down")];
  assert.deepEqual(merged(seen, before).map((one) => one.time.slice(11, 16)), ["11:00", "10:00", "09:00"]);
});

test("the overview names a daemon that went away", () => {
  const sources = [source({ open: true, state: "ended", "stale-routes": "5", "stale-time-left": 90 }), source({ open: true, "up-since": new Date().toISOString() })];
  const found = problems({ forwarder: {}, interfaces: [], sources }, {}, new Map());
  assert.deepEqual(found, [{ mood: "bad", words: "No routes arrive from zebra (fpm). 5 stale routes are still in use and are removed in 1 min 30 s.", to: "#/daemons" }]);
});
