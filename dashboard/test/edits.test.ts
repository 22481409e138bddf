import assert from "node:assert/strict";
import { test } from "node:test";
import { type Members, edits, isSame, keysOf } from "../src/edits";

const keys = keysOf([
  "/restconf/data/ietf-interfaces:interfaces",
  "/restconf/data/ietf-interfaces:interfaces/interface={interface-name}",
  "/restconf/data/ietf-interfaces:interfaces/interface={interface-name}/ietf-ip:ipv4/address={address-ip}",
  "/restconf/data/ietf-routing:routing/p={p-type},{p-name_}",
  "/restconf/operations/stoa-datastore:commit",
]);

const wan = (more: Members = {}): Members => ({ name: "wan", enabled: true, ...more });
const interfaces = (...list: Members[]): Members => ({ "ietf-interfaces:interfaces": { interface: list } });

test("the keys of lists are read from URLs", () => {
  assert.deepEqual(keys.get("ietf-interfaces:interfaces/interface"), ["name"]);
  assert.deepEqual(keys.get("ietf-interfaces:interfaces/interface/ietf-ip:ipv4/address"), ["ip"]);
  assert.deepEqual(keys.get("ietf-routing:routing/p"), ["type", "name"]);
  assert.equal(keys.size, 3);
});

test("nothing is sent when nothing is different", () => {
  const same = edits(interfaces(wan({ a: [1, 2] })), interfaces(wan({ a: [1, 2] })), keys);
  assert.deepEqual(same, { merge: undefined, remove: [], unclear: [] });
});

test("only what is different is merged, with the keys on the way", () => {
  const old = interfaces(wan({ mtu: 1500 }), { name: "lan" });
  const found = edits(old, interfaces(wan({ mtu: 9000 }), { name: "lan" }), keys);
  assert.deepEqual(found.merge, interfaces({ name: "wan", mtu: 9000 }));
  assert.deepEqual(found.remove, []);
});

test("what goes has a URL, entries of lists one by one", () => {
  const address = (ip: string): Members => ({ ip, "prefix-length": 24 });
  const old = interfaces(
    wan({ description: "to", "ietf-ip:ipv4": { address: [address("10.0.0.1"), address("10.0.1.1")] } }),
    { name: "eth0/1" },
  );
  const found = edits(old, interfaces(wan({ "ietf-ip:ipv4": { address: [address("10.0.1.1")] } })), keys);
  assert.equal(found.merge, undefined);
  assert.deepEqual(found.remove, [
    "ietf-interfaces:interfaces/interface=wan/description",
    "ietf-interfaces:interfaces/interface=wan/ietf-ip:ipv4/address=10.0.0.1",
    "ietf-interfaces:interfaces/interface=eth0%2F1",
  ]);
  const all = edits({ "ietf-routing:routing": { p: [{ type: "s:t", name: "it's" }] } }, { "ietf-routing:routing": {} }, keys);
  assert.deepEqual(all.remove, ["ietf-routing:routing/p=s%3At,it%27s"]);
});

test("values of leaf-lists come and go alone; an empty leaf is a leaf", () => {
  const found = edits({ "a:b": { c: ["x", "y"], d: [null] } }, { "a:b": { c: ["y", "z"] } }, keys);
  assert.deepEqual(found.merge, { "a:b": { c: ["z"] } });
  assert.deepEqual(found.remove, ["a:b/d", "a:b/c=x"]);
});

test("a list without known keys is said", () => {
  assert.deepEqual(edits({ "a:l": [{ b: 1 }] }, { "a:l": [{ b: 2 }] }, keys).unclear, ["a:l"]);
  assert.ok(isSame({ a: [1, { b: null }] }, { a: [1, { b: null }] }) && !isSame([1], [2]));
});
