import assert from "node:assert/strict";
import { test } from "node:test";
import type { Members } from "../src/edits";
import { NEW_VRF, NOTHING, type Wish, add, complaint, nameOf, parents } from "../src/new_interface";
import { changed } from "./configurations";

const whole: Members = {
  "ietf-interfaces:interfaces": {
    interface: [
      { name: "lan", "stoa-interfaces:port": { "af-packet": {} } },
      { name: "tun", "stoa-interfaces:port": { tunnel: {} } },
    ],
  },
  "stoa-vrf:vrfs": { vrf: [{ name: "red" }] },
};

function made(part: Partial<Wish>): Members {
  const wish = { ...NOTHING, ...part };
  assert.equal(complaint(wish, whole), "");
  return changed(whole, (next) => add(next, wish));
}

const last = (made: Members): Members => ((made["ietf-interfaces:interfaces"] as Members)["interface"] as Members[])[2] ?? {};
const wrong = (part: Partial<Wish>): string => complaint({ ...NOTHING, ...part }, whole);

test("a port has a driver with its settings, an MTU and a VRF", () => {
  const one = made({ name: "wan", driver: "memif", settings: { socket: " a.sock ", id: "7", role: "", device: "eth0" }, mtu: "9000", vrf: "red" });
  assert.deepEqual(last(one), {
    name: "wan",
    type: "iana-if-type:ethernetCsmacd",
    "stoa-interfaces:port": { mtu: 9000, memif: { socket: "a.sock", id: 7 } },
    "stoa-vrf:vrf": "red",
    "ietf-ip:ipv4": { forwarding: true },
    "ietf-ip:ipv6": { forwarding: true },
  });
});

test("a VLAN has a parent and one or two tags, and a name by them", () => {
  const one = made({ kind: "vlan", parent: "lan", vid: "7", inner: "8", isService: true, forwards: false });
  assert.deepEqual(last(one), {
    name: "lan.7.8",
    type: "iana-if-type:l2vlan",
    "stoa-interfaces:sub-interface": { parent: "lan", outer: { tpid: "s-vlan", vid: 7 }, inner: { vid: 8 } },
  });
  assert.equal(nameOf({ ...NOTHING, kind: "vlan", parent: "lan", vid: "7", name: "guests" }), "guests");
  assert.deepEqual(parents(whole), ["lan"]);
});

test("a tunnel has two ends, and a new VRF is made with it", () => {
  const one = made({ kind: "tunnel", name: "branch", encapsulation: "gre", local: "192.0.2.1", remote: "198.51.100.1", vrf: NEW_VRF, newVrf: " blue " });
  assert.deepEqual(last(one)["stoa-interfaces:port"], { tunnel: { encapsulation: "gre", local: "192.0.2.1", remote: "198.51.100.1" } });
  assert.equal(last(one)["stoa-vrf:vrf"], "blue");
  assert.deepEqual((one["stoa-vrf:vrfs"] as Members)["vrf"], [{ name: "red" }, { name: "blue" }]);
});

test("missing and wrong values are errors", () => {
  assert.match(wrong({}), /Enter a name/);
  assert.match(wrong({ name: "lan" }), /already/);
  assert.match(wrong({ name: "wan", driver: "dpdk" }), /PCI address/);
  assert.match(wrong({ name: "wan", driver: "pcap" }), /input file, an output file/);
  assert.match(wrong({ name: "wan", mtu: "20" }), /MTU from 68 to 11050/);
  assert.match(wrong({ kind: "vlan", vid: "7" }), /Choose the port/);
  assert.match(wrong({ kind: "vlan", parent: "lan", vid: "4095" }), /1 to 4094/);
  assert.match(wrong({ kind: "vlan", parent: "lan", vid: "7", inner: "x" }), /inner VLAN/);
  assert.match(wrong({ kind: "tunnel", name: "t", local: "192.0.2.1", remote: "fd00::1" }), /one family/);
  assert.match(wrong({ name: "wan", vrf: NEW_VRF, newVrf: "red" }), /already/);
  assert.match(wrong({ name: "wan", vrf: NEW_VRF, newVrf: "all" }), /other than default and all/);
});
