import assert from "node:assert/strict";
import { test } from "node:test";
import { type Members, edits } from "../src/edits";
import { modelOf } from "../src/model";
import { type RouterKey, type RouterWish, links, put, remove, review, routerAt, routersOf, wishOf } from "../src/virtual_router";
import { changed, errorsOf } from "./configurations";

const LIST = "/restconf/data/ietf-interfaces:interfaces/interface";
const VRRP = `${LIST}={interface-name}/ietf-ip:ipv4/ietf-vrrp:vrrp/vrrp-instance`;
const model = modelOf({
  [`${LIST}={interface-name}`]: {},
  [`${VRRP}={vrrp-instance-vrid}`]: {},
  [`${VRRP}={vrid}/virtual-ipv4-addresses/virtual-ipv4-address={virtual-ipv4-address-ipv4-address}`]: {},
});
const four = (...list: Members[]): Members => ({ "ietf-ip:ipv4": { forwarding: true, "ietf-vrrp:vrrp": { "vrrp-instance": list } } });
const whole = (lan: Members = { "ietf-ip:ipv4": { forwarding: true } }): Members => ({
  "ietf-interfaces:interfaces": { interface: [{ name: "lan", ...lan }, { name: "wan" }, { name: "tun", "stoa-interfaces:port": { tunnel: {} } }] },
});
const addresses = (...list: string[]): Members => ({ "virtual-ipv4-addresses": { "virtual-ipv4-address": list.map((it) => ({ "ipv4-address": it })) } });
const wish = (part: Partial<RouterWish>): RouterWish => ({ ...wishOf(), interface: "lan", vrid: "51", addresses: ["192.0.2.1"], ...part });
const key: RouterKey = { interface: "lan", family: "4", vrid: 51 };
const words = (part: Partial<RouterWish>, old = whole(), before?: RouterKey): string[] => errorsOf(review(wish(part), old, before));
const v3 = { version: "ietf-vrrp:vrrp-v3" };
const v2 = { version: "ietf-vrrp:vrrp-v2" };

test("a new virtual router has what was entered, and no defaults", () => {
  assert.deepEqual(changed(whole(), (next) => put(next, wish({ addresses: ["192.0.2.1", ""] }))), whole(four({ vrid: 51, ...v3, ...addresses("192.0.2.1") })));
  const all = wish({
    priority: "150",
    preempt: false,
    hold: "30",
    accept: true,
    interval: "0.2",
    log: true,
    interfaces: [{ name: "wan", decrement: "" }],
    networks: [{ name: "0.0.0.0/0", decrement: "60" }],
  });
  const made = changed(whole(), (next) => put(next, all));
  const track = { interfaces: { interface: [{ interface: "wan" }] }, networks: { network: [{ prefix: "0.0.0.0/0", "priority-decrement": 60 }] } };
  const rest = { priority: 150, preempt: { enabled: false, "hold-time": 30 }, "accept-mode": true, "advertise-interval-centi-sec": 20, "log-state-change": true, track };
  assert.deepEqual(made, whole(four({ vrid: 51, ...v3, ...rest, ...addresses("192.0.2.1") })));
  assert.deepEqual(wishOf(routersOf(made)[0]), all);
});

test("version 2 has its own interval and no accept mode; IPv6 has version 3", () => {
  const old = whole(four({ vrid: 51, ...v3, "accept-mode": true, "advertise-interval-centi-sec": 200, ...addresses("192.0.2.1") }));
  const before = wishOf(routerAt(old, key));
  const desired = changed(old, (next) => put(next, { ...before, version: "2" }, key));
  assert.deepEqual(desired, whole(four({ vrid: 51, ...v2, "advertise-interval-sec": 2, ...addresses("192.0.2.1") })));
  const six = changed(whole({}), (next) => put(next, wish({ family: "6", version: "2", addresses: ["FE80::1", "2001:db8::1"] })));
  const list = [{ "ipv6-address": "fe80::1" }, { "ipv6-address": "2001:db8::1" }];
  assert.deepEqual(six, whole({ "ietf-ip:ipv6": { "ietf-vrrp:vrrp": { "vrrp-instance": [{ vrid: 51, ...v3, "virtual-ipv6-addresses": { "virtual-ipv6-address": list } }] } } }));
});

test("a virtual router of the other family has addresses of that one", () => {
  const old = whole(four({ vrid: 51, ...v3, preempt: { enabled: false }, ...addresses("192.0.2.1") }));
  const six = changed(old, (next) => put(next, { ...wishOf(routerAt(old, key)), family: "6", addresses: ["fe80::1"], preempt: true }, key));
  const instance = { vrid: 51, ...v3, "virtual-ipv6-addresses": { "virtual-ipv6-address": [{ "ipv6-address": "fe80::1" }] } };
  assert.deepEqual(six, whole({ ...four(), "ietf-ip:ipv6": { "ietf-vrrp:vrrp": { "vrrp-instance": [instance] } } }));
});

test("an edited virtual router keeps other nodes, and sends what is different", () => {
  const old = whole(four({ vrid: 51, ...v3, preempt: { enabled: true }, "log-state-change": false, "m:other": 1, ...addresses("192.0.2.1", "192.0.2.2") }));
  const before = wishOf(routerAt(old, key));
  assert.deepEqual(changed(old, (next) => put(next, before, key)), old);
  const desired = changed(old, (next) => put(next, { ...before, priority: "120", addresses: ["192.0.2.2"] }, key));
  const found = edits(old, desired, model);
  const instance = "ietf-interfaces:interfaces/interface=lan/ietf-ip:ipv4/ietf-vrrp:vrrp/vrrp-instance=51";
  assert.deepEqual(found.remove, [`${instance}/virtual-ipv4-addresses/virtual-ipv4-address=192.0.2.1`]);
  assert.deepEqual(found.merge, { "ietf-interfaces:interfaces": { interface: [{ name: "lan", "ietf-ip:ipv4": { "ietf-vrrp:vrrp": { "vrrp-instance": [{ vrid: 51, priority: 120 }] } } }] } });
});

test("another VRID is another virtual router; one is removed alone", () => {
  const old = whole(four({ vrid: 51, ...v3, ...addresses("192.0.2.1") }, { vrid: 7, ...v2 }));
  const moved = changed(old, (next) => put(next, { ...wishOf(routerAt(old, key)), vrid: "52" }, key));
  assert.deepEqual(moved, whole(four({ vrid: 7, ...v2 }, { vrid: 52, ...v3, ...addresses("192.0.2.1") })));
  assert.deepEqual(changed(old, (next) => remove(next, key)), whole(four({ vrid: 7, ...v2 })));
  assert.deepEqual(links(old), ["lan", "wan"]);
});

test("missing and wrong values are errors", () => {
  assert.deepEqual(words({}), []);
  assert.match(words({ interface: "" }).join(), /Choose the interface/);
  assert.match(words({ vrid: "" }).join(), /Enter the VRID/);
  assert.match(words({ vrid: "256" }).join(), /1 to 255/);
  assert.match(words({}, whole(four({ vrid: 51, ...v3 }))).join(), /already/);
  assert.deepEqual(words({}, whole(four({ vrid: 51, ...v3 })), key), []);
  assert.match(words({ addresses: [""] }).join(), /gateway/);
  assert.match(words({ addresses: ["192.0.2.1/24"] }).join(), /without a prefix length/);
  assert.match(words({ addresses: ["192.0.2.1", "192.0.2.1"] }).join(), /already in the list/);
  assert.match(words({ family: "6", addresses: ["2001:db8::1"] }).join(), /link-local/);
  assert.match(words({ family: "6", addresses: ["fe80::1", "fe80::2", "fe80::3"] }).join(), /at most 2/);
  assert.match(words({ priority: "255" }).join(), /1 to 254/);
  assert.match(words({ hold: "x" }).join(), /0 to 65535/);
  assert.match(words({ interval: "41" }).join(), /0.01 to 40.95/);
  assert.match(words({ version: "2", interval: "0.5" }).join(), /1 to 254/);
  assert.match(words({ networks: [{ name: "fd00::/8", decrement: "" }] }).join(), /IPv4 prefix/);
  assert.match(words({ interfaces: [{ name: "wan", decrement: "255" }] }).join(), /decrement from 1 to 254/);
  assert.match(words({ interfaces: [{ name: "wan", decrement: "" }, { name: "wan", decrement: "" }] }).join(), /already in the list/);
});
