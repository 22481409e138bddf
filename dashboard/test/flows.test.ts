import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type Flow, STATES, byState, countersOf, end, ends, flowKey, inputOf, sumOf, talkers } from "../src/flows";
import { complaint, endsIn, moodOf, searchLink, searchOf, stateWords } from "../src/pages/flows";

const flow: Flow = {
  protocol: 6,
  "source-address": "10.0.0.7",
  "source-port": 40_000,
  "destination-address": "2001:db8::1",
  "destination-port": 443,
  vrf: "default",
  state: "tcp-established",
  octets: "1000",
  "reply-octets": "9000",
  packets: "10",
  "reply-packets": "20",
  idle: 60,
  timeout: 7_440,
};

test("a search has its location, and the input of the operation", () => {
  const search = searchOf(new Map([["prefix", "10.0.0.0/8"], ["port", "53"], ["order", "rate"], ["state", "udp-new"]]));
  assert.deepEqual(inputOf(search), { prefix: "10.0.0.0/8", port: 53, state: ["udp-new"], order: "rate", limit: 100 });
  assert.equal(searchLink(search), "#/flows?prefix=10.0.0.0%2F8&port=53&state=udp-new&order=rate");
  const all = searchOf(new Map());
  assert.deepEqual(inputOf(all), { order: "octets", limit: 100 });
  assert.equal(searchLink(all), "#/flows");
  assert.equal(complaint(search), "");
  assert.match(complaint({ ...search, prefix: "ten" }), /neither an address nor a prefix/);
  assert.match(complaint({ ...search, port: "0" }), /1 to 65535/);
});

test("ends have ports, and what they are translated to", () => {
  assert.equal(end("2001:db8::1", 443, 6), "[2001:db8::1]:443");
  assert.equal(end("10.0.0.1", 9, 1), "10.0.0.1");
  assert.deepEqual(ends(flow, "source"), { shown: "10.0.0.7:40000", behind: "" });
  const translated = { ...flow, "translated-source-address": "203.0.113.1", "translated-source-port": 1_024, "translated-destination-address": "2001:db8::1", "translated-destination-port": 443 };
  assert.equal(ends(translated, "source").behind, "203.0.113.1:1024");
  assert.equal(ends(translated, "destination").behind, "");
});

test("a state has a mood and the time that is left", () => {
  assert.deepEqual([moodOf(flow), stateWords(flow), endsIn(flow)], ["good", "established", "2 h"]);
  const suspended = { ...flow, suspended: true };
  assert.deepEqual([moodOf(suspended), stateWords(suspended)], ["warn", "established, suspended"]);
  assert.deepEqual([moodOf({ ...flow, state: "tcp-reset" }), moodOf({ ...flow, state: "udp-new" })], ["bad", "idle"]);
});

test("the states are those of the router", () => {
  const source = readFileSync("../crates/api/src/flow.rs", "utf8");
  const [, listed = ""] = /pub const STATES[^=]*=\s*\[([^\]]*)\]/.exec(source) ?? [];
  assert.deepEqual(STATES, [...listed.matchAll(/"([^"]+)"/g)].map(([, name]) => name));
});

test("families are added up by state", () => {
  const families = [
    { name: "ipv4" as const, "refused-packets": "3", state: [{ name: "udp-new", "active-flows": "2" }, { name: "tcp-opening", "active-flows": "3", "suspended-flows": "1" }] },
    { name: "ipv6" as const, "refused-packets": "4", state: [{ name: "udp-new", "active-flows": "1" }] },
  ];
  assert.deepEqual(byState(families), [["tcp-opening", 3], ["udp-new", 3], ["suspended", 1]]);
  assert.equal(sumOf(families, "refused-packets"), 7);
});

test("talkers come by octets or by rate", () => {
  const other = { ...flow, "source-address": "10.0.0.8", "source-port": 1, octets: "500", "reply-octets": "0" };
  const again = { ...flow, "source-port": 40_001, octets: "10", "reply-octets": "0" };
  const flows = [flow, other, again];
  const rates = new Map([[`${flowKey(other)} bits`, 800], [`${flowKey(flow)} bits`, 8]]);
  const found = talkers(flows, "source", rates, false);
  assert.deepEqual(found.map((it) => [it.address, it.octets, it.flows, it.rate]), [["10.0.0.7", 10_010, 2, 8], ["10.0.0.8", 500, 1, 800]]);
  assert.equal(talkers(flows, "source", rates, true)[0]?.address, "10.0.0.8");
  assert.equal(countersOf([flow]).get(`${flowKey(flow)} bits`), 80_000);
});
