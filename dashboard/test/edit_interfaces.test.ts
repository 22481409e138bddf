import assert from "node:assert/strict";
import { test } from "node:test";
import { type Members, edits } from "../src/edits";
import { modelOf } from "../src/model";
import { formOf, put } from "../src/pages/edit_interfaces";
import { changed } from "./configurations";

const LIST = "/restconf/data/ietf-interfaces:interfaces/interface";
const model = modelOf({ [`${LIST}={interface-name}`]: {}, [`${LIST}={interface-name}/ietf-ip:ipv6/address={address-ip}`]: {} });

test("an edited interface keeps other nodes, and has no defaults", () => {
  const address = { ip: "192.0.2.1", "prefix-length": 24, "m:other": 1 };
  const old: Members = { name: "lan", enabled: false, "ietf-ip:ipv4": { forwarding: true, mtu: 1400, address: [address, { ip: "192.0.2.9", "prefix-length": 24 }] } };
  const before = formOf(old);
  assert.deepEqual(changed(old, (next) => put(next, before, before)), old);
  const form = { ...before, enabled: true, description: "to the customers", 4: { forwarding: false, addresses: ["192.0.2.1/25", " "] } };
  const desired = changed(old, (next) => put(next, form, before));
  assert.deepEqual(desired, { name: "lan", description: "to the customers", "ietf-ip:ipv4": { mtu: 1400, address: [{ ...address, "prefix-length": 25 }] } });
  assert.deepEqual(changed(desired, (next) => put(next, { ...form, enabled: false, description: " " }, form)), { name: "lan", enabled: false, "ietf-ip:ipv4": desired["ietf-ip:ipv4"] });
});

test("an address that is only written anew stays", () => {
  const old: Members = { name: "lan", "ietf-ip:ipv6": { address: [{ ip: "2001:db8::1", "prefix-length": 64 }] } };
  const before = formOf(old);
  const desired = changed(old, (next) => put(next, { ...before, 6: { ...before[6], addresses: ["2001:DB8:0::1/48"] } }, before));
  const interfaces = (one: Members): Members => ({ "ietf-interfaces:interfaces": { interface: [one] } });
  const found = edits(interfaces(old), interfaces(desired), model);
  assert.deepEqual(found.remove, []);
  assert.deepEqual(found.merge, interfaces({ name: "lan", "ietf-ip:ipv6": { address: [{ ip: "2001:db8::1", "prefix-length": 48 }] } }));
});
