import assert from "node:assert/strict";
import { test } from "node:test";
import { type Members, edits, isSame, lookUp } from "../src/edits";
import { type Described, modelOf, pathOf } from "../src/model";

const ordered = { put: { parameters: [{ name: "insert" }, { name: "point" }] } };
const RULES = "/restconf/data/ietf-netconf-acm:nacm/rule-list={rule-list-name}";
const paths: Described = {
  "/restconf/data/ietf-interfaces:interfaces": {},
  "/restconf/data/ietf-interfaces:interfaces/interface={interface-name}": { put: {} },
  "/restconf/data/ietf-interfaces:interfaces/interface={interface-name}/ietf-ip:ipv4/address={address-ip}": { put: {} },
  "/restconf/data/ietf-routing:routing/p={p-type},{p-name_}": {},
  [RULES]: ordered,
  [`${RULES}/rule={rule-name}`]: ordered,
  [`${RULES}/rule={rule-name}/action`]: {},
  "/restconf/data/m:radius/server={server-name}": ordered,
  "/restconf/data/m:radius/server={server-name}/address": {},
  "/restconf/data/m:radius/server={server-name}/shared-secret": {},
  "/restconf/operations/stoa-datastore:commit": {},
};
const model = modelOf(paths);
const keys = model.keys;

const wan = (more: Members = {}): Members => ({ name: "wan", enabled: true, ...more });
const interfaces = (...list: Members[]): Members => ({ "ietf-interfaces:interfaces": { interface: list } });

test("the keys of lists are read from URLs", () => {
  assert.deepEqual(keys.get("ietf-interfaces:interfaces/interface"), ["name"]);
  assert.deepEqual(keys.get("ietf-interfaces:interfaces/interface/ietf-ip:ipv4/address"), ["ip"]);
  assert.deepEqual(keys.get("ietf-routing:routing/p"), ["type", "name"]);
  assert.equal(keys.size, 6);
});

test("the order and hidden nodes of a list come from the description", () => {
  assert.deepEqual([...model.ordered], ["ietf-netconf-acm:nacm/rule-list", "ietf-netconf-acm:nacm/rule-list/rule", "m:radius/server"]);
  assert.deepEqual(model.hidden.get("m:radius/server"), ["shared-secret"]);
  assert.deepEqual(model.hidden.get("ietf-netconf-acm:nacm/rule-list"), []);
});

test("nothing is sent when nothing is different", () => {
  const same = edits(interfaces(wan({ a: [1, 2] })), interfaces(wan({ a: [1, 2] })), model);
  assert.deepEqual(same, { merge: undefined, remove: [], unclear: [], order: [] });
});

test("only differences are merged, with the keys above them", () => {
  const old = interfaces(wan({ mtu: 1500 }), { name: "lan" });
  const found = edits(old, interfaces(wan({ mtu: 9000 }), { name: "lan" }), model);
  assert.deepEqual(found.merge, interfaces({ name: "wan", mtu: 9000 }));
  assert.deepEqual(found.remove, []);
});

test("deleted nodes have a URL, list entries one by one", () => {
  const address = (ip: string): Members => ({ ip, "prefix-length": 24 });
  const old = interfaces(
    wan({ description: "to", "ietf-ip:ipv4": { address: [address("10.0.0.1"), address("10.0.1.1")] } }),
    { name: "eth0/1" },
  );
  const found = edits(old, interfaces(wan({ "ietf-ip:ipv4": { address: [address("10.0.1.1")] } })), model);
  assert.equal(found.merge, undefined);
  assert.deepEqual(found.remove, [
    "ietf-interfaces:interfaces/interface=wan/description",
    "ietf-interfaces:interfaces/interface=wan/ietf-ip:ipv4/address=10.0.0.1",
    "ietf-interfaces:interfaces/interface=eth0%2F1",
  ]);
  const all = edits({ "ietf-routing:routing": { p: [{ type: "s:t", name: "it's" }] } }, { "ietf-routing:routing": {} }, model);
  assert.deepEqual(all.remove, ["ietf-routing:routing/p=s%3At,it%27s"]);
});

test("values of leaf-lists come and go alone; an empty leaf is a leaf", () => {
  const found = edits({ "a:b": { c: ["x", "y"], d: [null] } }, { "a:b": { c: ["y", "z"] } }, model);
  assert.deepEqual(found.merge, { "a:b": { c: ["z"] } });
  assert.deepEqual(found.remove, ["a:b/d", "a:b/c=x"]);
});

test("a list without known keys is reported", () => {
  assert.deepEqual(edits({ "a:l": [{ b: 1 }] }, { "a:l": [{ b: 2 }] }, model).unclear, ["a:l"]);
  assert.ok(isSame({ a: [1, { b: null }] }, { a: [1, { b: null }] }) && !isSame([1], [2]));
});

const rules = (...names: string[]): Members => ({
  "ietf-netconf-acm:nacm": { "rule-list": [{ name: "it's", rule: names.map((name) => ({ name })) }] },
});
const roles = (old: Members, desired: Members): string[][] =>
  edits(old, desired, model).order.map((one) => [one.url, ...one.desired.map(({ mark, role }) => `${mark} ${role}`)]);

test("lists that their users order are arranged; as few entries as can be move", () => {
  const url = "ietf-netconf-acm:nacm/rule-list=it%27s/rule";
  assert.deepEqual(roles(rules("a", "b", "c"), rules("c", "a", "b")), [[url, "c moves", "a stays", "b stays"]]);
  assert.deepEqual(roles(rules("a", "b"), rules("n", "a", "b")), [[url, "n new", "a stays", "b stays"]]);
  assert.deepEqual(roles(rules("a", "b", "c"), rules("a", "c")), []);
  // The order of interfaces means nothing.
  assert.deepEqual(roles(interfaces(wan(), { name: "lan" }), interfaces({ name: "lan" }, wan())), []);
  assert.deepEqual(roles({ "a:b": { c: [1, 2] } }, { "a:b": { c: [2, 1] } }), [["a:b/c", "2 moves", "1 stays"]]);
  assert.equal(edits(rules("a", "b"), rules("b", "a"), model).merge, undefined);
});

test("a value is found by its URL, which becomes a data path", () => {
  const url = "ietf-netconf-acm:nacm/rule-list=it%27s/rule";
  assert.deepEqual(lookUp(rules("a", "b"), `${url}=b`, model), { name: "b" });
  assert.equal(lookUp(rules("a"), `${url}=b`, model), undefined);
  assert.equal(pathOf(`${url}=b`, model), `/ietf-netconf-acm:nacm/rule-list[name="it's"]/rule[name='b']`);
  assert.equal(pathOf("ietf-routing:routing/p=s%3At,x", model), "/ietf-routing:routing/p[type='s:t'][name='x']");
});
