import assert from "node:assert/strict";
import { test } from "node:test";
import { type Members, edits } from "../src/edits";
import { modelOf } from "../src/model";
import { type RuleKey, type RuleWish, move, moveComplaint, nextPriority, put, remove, review, ruleAt, rulesOf, wishOf } from "../src/policy_rule";
import { changed, errorsOf } from "./configurations";

const model = modelOf({ "/restconf/data/ietf-routing:routing/stoa-policy:policy/rule={rule-vrf},{rule-address-family},{rule-priority}": {} });
const key = (priority: number): RuleKey => ({ vrf: "default", family: "ipv4", priority });
const rule = (priority: number, rest: Members): Members => ({ vrf: "default", "address-family": "ipv4", priority, ...rest });
const whole = (...rules: Members[]): Members => ({ "ietf-routing:routing": { "stoa-policy:policy": { rule: rules } } });
const words = (part: Partial<RuleWish>, old = whole(), before?: RuleKey): string[] => errorsOf(review({ ...wishOf(), table: "default", ...part }, old, before));

test("a new rule has its conditions, and the next priority", () => {
  const wish: RuleWish = {
    ...wishOf(),
    source: " 10.1.0.0/16 ",
    interface: "lan",
    dscp: "46",
    protocol: "udp",
    sourcePort: "1024 to 65535",
    destinationPort: "53",
    table: "red",
    ignoreDefault: true,
    description: "second provider",
  };
  const match = { "source-prefix": "10.1.0.0/16", interface: "lan", dscp: 46, protocol: 17, "source-port": { "lower-port": 1024, "upper-port": 65535 }, "destination-port": { "lower-port": 53 } };
  const made = changed({}, (desired) => put(desired, wish));
  assert.deepEqual(made, whole(rule(100, { description: "second provider", match, table: "red", "ignore-default": true })));
  // The form of what was made is the form.
  assert.deepEqual(wishOf(rulesOf(made)[0]), { ...wish, priority: "100", source: "10.1.0.0/16", protocol: "UDP", sourcePort: "1024-65535" });
  assert.deepEqual(changed({}, (desired) => put(desired, { ...wishOf(), action: "prohibit", priority: "7" })), whole(rule(7, { refuse: "prohibit" })));
});

test("priorities of new rules come before the table of the VRF", () => {
  assert.equal(nextPriority(whole(rule(100, {}), rule(40_000, {})), "default", "ipv4"), 110);
  assert.equal(nextPriority(whole(rule(32_765, {})), "default", "ipv4"), 32_764);
  assert.equal(nextPriority(whole(rule(100, {})), "default", "ipv6"), 100);
});

test("another action replaces the old one; other nodes stay", () => {
  const old = whole(rule(100, { match: { "source-port": { "upper-port": 1023 } }, table: "red", "ignore-default": true, "m:other": 1 }));
  const before = wishOf(ruleAt(old, key(100)));
  const desired = changed(old, (next) => put(next, { ...before, action: "goto", goto: "200" }, key(100)));
  assert.deepEqual(ruleAt(desired, key(100)), rule(100, { match: { "source-port": { "upper-port": 1023 } }, goto: 200, "m:other": 1 }));
  // Without a change, nothing is sent.
  assert.deepEqual(edits(old, changed(old, (next) => put(next, before, key(100))), model), { merge: undefined, remove: [], unclear: [], order: [] });
});

test("a rule with another priority is another entry", () => {
  const old = whole(rule(100, { refuse: "blackhole" }));
  const desired = changed(old, (next) => put(next, { ...wishOf(ruleAt(old, key(100))), priority: "50" }, key(100)));
  const found = edits(old, desired, model);
  assert.deepEqual(found.merge, whole(rule(50, { refuse: "blackhole" })));
  assert.deepEqual(found.remove, ["ietf-routing:routing/stoa-policy:policy/rule=default,ipv4,100"]);
});

test("rules change places within their VRF and family", () => {
  const six: Members = { vrf: "default", "address-family": "ipv6", priority: 150, refuse: "blackhole" };
  const old = whole(rule(200, { refuse: "prohibit", description: "b" }), six, rule(100, { table: "red", match: { dscp: 1 } }));
  const desired = changed(old, (next) => move(next, key(100), 1));
  assert.deepEqual(rulesOf(desired), [rule(100, { refuse: "prohibit", description: "b" }), rule(200, { table: "red", match: { dscp: 1 } }), six]);
  assert.notEqual(moveComplaint(old, key(100), -1), "");
  assert.equal(moveComplaint(old, key(200), -1), "");
  assert.notEqual(moveComplaint(old, { ...key(150), family: "ipv6" }, 1), "");
});

test("a rule does not move behind the target of its goto", () => {
  const old = whole(rule(100, { goto: 200 }), rule(200, { refuse: "prohibit" }), rule(300, { refuse: "blackhole" }));
  assert.match(moveComplaint(old, key(100), 1), /Rule 100 continues at priority 200/);
  assert.match(moveComplaint(old, key(200), -1), /Rule 100 continues/);
  assert.equal(moveComplaint(old, key(200), 1), "");
});

test("a rule is removed alone", () => {
  const desired = changed(whole(rule(100, {}), rule(200, {})), (next) => remove(next, key(100)));
  assert.deepEqual(desired, whole(rule(200, {})));
});

test("missing and wrong values are errors", () => {
  assert.deepEqual(words({}), []);
  assert.match(words({ table: "" }).join(), /Choose the table/);
  assert.match(words({ priority: "0" }).join(), /1 to 4294967295/);
  assert.deepEqual(words({ priority: "4294967295" }), []);
  assert.match(words({ priority: "100" }, whole(rule(100, {}))).join(), /already/);
  assert.deepEqual(words({ priority: "100" }, whole(rule(100, {})), key(100)), []);
  assert.match(words({ source: "2001:db8::/32" }).join(), /IPv4 prefix/);
  assert.match(words({ destination: "10.0.0.1" }).join(), /IPv4 prefix/);
  assert.match(words({ destination: "10.0.0.1/8" }).join(), /host bits/);
  assert.match(words({ dscp: "64" }).join(), /0 to 63/);
  assert.match(words({ protocol: "carp" }).join(), /protocol number/);
  assert.match(words({ sourcePort: "9-8" }).join(), /port from 1/);
  assert.match(words({ destinationPort: "70000" }).join(), /port from 1/);
  assert.match(words({ action: "goto" }).join(), /Enter the priority/);
  assert.match(words({ action: "goto", goto: "100" }).join(), /greater than 100/);
});
