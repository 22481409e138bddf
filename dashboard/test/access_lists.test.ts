import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  type AccessLists,
  type Ace,
  besides,
  conditions,
  countersOf,
  forwarding,
  places,
  placesOf,
  thresholdOf,
} from "../src/access_lists";
import { familyWords, isNever, lastHit, selected } from "../src/pages/rules";

const accept = "ietf-access-control-list:accept";
const ace = (name: string, matches: Ace["matches"], packets: number, last?: string): Ace => ({
  name,
  ...(matches && { matches }),
  actions: { forwarding: accept },
  statistics: { "matched-packets": String(packets), ...(last && { "stoa-acl:last-hit": last }) },
});

const all: AccessLists = {
  acl: [
    { name: "out", aces: { ace: [ace("web", { tcp: { "destination-port": { operator: "eq", port: 443 } } }, 7, "2026-01-01T10:00:00Z"), ace("rest", {}, 0)] } },
    { name: "six", type: "ietf-access-control-list:ipv6-acl-type", aces: { ace: [] } },
    { name: "loose" },
  ],
  "attachment-points": { interface: [{ "interface-id": "lan", ingress: { "acl-sets": { "acl-set": [{ name: "out" }, { name: "six" }] } } }] },
  "stoa-acl:zone-pairs": { "zone-pair": [{ from: "in", to: "router", "acl-sets": { "acl-set": [{ name: "out" }] }, statistics: { "dropped-packets": "9" } }] },
  "stoa-acl:unmatched": [
    { family: "ipv4", acls: "out", packets: "5", octets: "300" },
    { family: "ipv6", acls: "out six", packets: "6", octets: "360" },
  ],
};

test("the conditions of a rule are shown in words", () => {
  const words = (matches: Ace["matches"]): string => conditions(ace("x", matches, 0)).join(", ");
  assert.equal(words({}), "all packets");
  assert.equal(words({ ipv4: {} }), "IPv4");
  assert.equal(words({ ipv4: { "source-ipv4-network": "10.0.0.0/8", protocol: 47 } }), "from 10.0.0.0/8, GRE");
  assert.equal(words({ ipv6: { "stoa-acl:destination-ipv6-prefix-list": "servers" } }), "to set servers");
  assert.equal(words({ tcp: { "destination-port": { operator: "eq", port: 443 } } }), "TCP port 443");
  assert.equal(words({ udp: { "source-port": { "lower-port": 1000, "upper-port": 2000 } } }), "UDP, source port 1000 to 2000");
  assert.equal(words({ tcp: { "destination-port": { operator: "gte", port: 1024 }, "stoa-acl:tcp-flags": { set: "syn", clear: "ack" } } }), "TCP port at least 1024, with SYN, without ACK");
  assert.equal(words({ udp: { "stoa-acl:destination-udp-port-set": "voice" } }), "UDP port set voice");
  assert.equal(words({ icmp: { type: 8 } }), "ICMP type 8");
  assert.equal(words({ ipv6: {}, icmp: { type: 128, code: 0 } }), "ICMPv6 type 128 code 0");
  assert.equal(words({ "stoa-acl:fragment": "later", "stoa-acl:vlan-id": 0, "egress-interface": "wan" }), "fragment: later, sent by wan, no VLAN");
});

test("an action has what it does besides", () => {
  const actions = { forwarding: accept, "stoa-acl:stateful": true, "stoa-acl:alg": "ftp", "stoa-acl:rate-limit": { "packets-per-second": 100 }, logging: "ietf-access-control-list:log-syslog" };
  assert.deepEqual(besides({ name: "x", actions }), ["stateful", "ALG FTP", "at most 100 packets/s", "logged"]);
  assert.deepEqual(besides({ name: "x", actions: { forwarding: accept, logging: "ietf-access-control-list:log-none" } }), []);
  assert.equal(forwarding({ name: "x", actions: { forwarding: "ietf-access-control-list:reject" } }), "reject");
});

test("places have the packets that no rule matched, by family and lists", () => {
  const found = places(all);
  assert.deepEqual(
    found.map((it) => [it.kind, it.name, it.family, it.lists.join(), it.packets]),
    [
      ["input", "lan", "ipv4", "out", 5],
      ["input", "lan", "ipv6", "out,six", 6],
      ["pair", "in → router", undefined, "out", 9],
    ],
  );
  assert.deepEqual(placesOf("out", found), ["input of lan", "zones in → router"]);
  assert.deepEqual(placesOf("loose", found), []);
});

test("rules are searched, and those that never matched", () => {
  const [out, six] = [all.acl?.[0], all.acl?.[1]];
  assert.ok(out && six);
  assert.deepEqual(selected(out, "443", false).map(({ at }) => at), [1]);
  assert.deepEqual(selected(out, "", true).map(({ ace: { name } }) => name), ["rest"]);
  assert.equal(selected(out, "out", false).length, 2);
  assert.equal(familyWords(six), "IPv6");
  assert.equal(familyWords(out), "IPv4 and IPv6");
  const [web, rest] = out.aces?.ace ?? [];
  assert.ok(web && rest);
  assert.equal(lastHit(web, Date.parse("2026-01-01T10:03:20Z")), "3 min ago");
  assert.equal(lastHit(web, Date.parse("2026-01-01T10:00:01Z")), "now");
  assert.ok(!isNever(web) && isNever(rest) && !isNever({ name: "without statistics" }));
  assert.deepEqual([...countersOf(all).values()], [7, 0]);
});

test("the default threshold of SYN cookies is that of the module", () => {
  const module = readFileSync("../yang/stoa-acl.yang", "utf8");
  const [, threshold] = /leaf threshold \{[^}]*\}[^}]*default "(\d+)"/.exec(module) ?? [];
  assert.equal(thresholdOf({ name: "outside" }), Number(threshold));
  assert.equal(thresholdOf({ name: "outside", "syn-cookies": { threshold: 0 } }), 0);
});
