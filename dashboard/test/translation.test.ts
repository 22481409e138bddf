import assert from "node:assert/strict";
import { test } from "node:test";
import { policyName, portsInUse } from "../src/pages/nat";
import { type Nat, dropsOf, externalOf, kindOf, policiesOf, pools, portRanges, portSets, portsAt, senders, settingsOf, statelessOf, staticEnd, subscribersOf } from "../src/translation";

const all: Nat = {
  instances: {
    instance: [
      {
        id: 1,
        policy: [
          {
            id: 10,
            "subscriber-match": [{ subnet: "10.0.0.0/24" }],
            "external-ip-address-pool": [{ "external-ip-pool": "203.0.113.16/28" }],
            "port-quota": [{ "quota-type": 17, "port-limit": 500 }],
            "stoa-nat:statistics": { "no-port-packets": "3", "no-address-packets": "0", "over-quota-packets": "2" },
          },
          {
            id: 20,
            "mapping-type": "ietf-nat:edm",
            "port-allocation-type": "ietf-nat:port-range-allocation",
            "port-set": { "port-set-size": 512, "stoa-nat:deterministic": true },
            "stoa-nat:statistics": { "port-sets": "126", "used-port-sets": "100", "unused-port-sets": "5" },
          },
        ],
        statistics: { "pools-stats": { "addresses-allocated": 3, "addresses-free": 13 } },
      },
      { id: 6, type: "ietf-nat:nptv6", policy: [{ id: 1, "nptv6-prefixes": [{ "internal-ipv6-prefix": "fd00::/48", "external-ipv6-prefix": "2001:db8::/48" }] }] },
      { id: 46, type: "ietf-nat:siit", policy: [{ id: 1 }], statistics: { "mappings-statistics": { "total-address-mappings": 1 } } },
    ],
  },
};

test("policies have their sources, addresses, settings and drops in words", () => {
  const [first, second] = policiesOf(all);
  assert.ok(first && second);
  assert.deepEqual([policyName(first), kindOf(first.instance)], ["1/10", "NAT44"]);
  assert.deepEqual([subscribersOf(first), externalOf(first)], [["10.0.0.0/24"], ["203.0.113.16/28"]]);
  assert.deepEqual([subscribersOf(second), externalOf(second)], [["all sources"], ["the address of the interface"]]);
  assert.deepEqual(settingsOf(first), ["EIM / EDF", "quota: 500 UDP ports"]);
  assert.deepEqual(settingsOf(second), ["EDM", "deterministic port sets of 512"]);
  assert.deepEqual(dropsOf(first.policy), [["no free port", 3], ["over quota", 2]]);
  assert.deepEqual([portSets(first.policy), portSets(second.policy)], [undefined, { used: 100, held: 5, all: 126 }]);
  assert.deepEqual(pools(all), { used: 3, all: 16 });
  assert.equal(pools({}), undefined);
});

test("translation without flows is one row for each instance", () => {
  assert.deepEqual(statelessOf(all).map((it) => it.pairs), [["fd00::/48 ↔ 2001:db8::/48"], ["1 mapping"]]);
});

test("ports are counted and joined", () => {
  const pool = { "external-ip-address-pool": [{ "external-ip-pool": "203.0.113.64/30" }], "port-set-restrict": { "start-port-number": 20_000, "end-port-number": 20_999 } };
  const restricted: Nat = { instances: { instance: [{ id: 1, policy: [{ id: 1, ...pool }] }] } };
  assert.deepEqual([67, 68].map((last) => portsAt(restricted, `203.0.113.${last}`)), [1_000, undefined]);
  assert.equal(portsAt(all, "203.0.113.17"), 64_512);
  // Masquerade with a range: which policy an address in no pool is of is not known.
  const range = { "port-set-restrict": { "start-port-number": 1_024, "end-port-number": 32_767 } };
  const masquerade: Nat = { instances: { instance: [{ id: 1, policy: [{ id: 1, ...range }, { id: 2 }] }] } };
  assert.equal(portsAt(masquerade, "198.51.100.1"), undefined);
  // Two policies share a pool: the ports are known where both have as many.
  const shared = (other: object): Nat => {
    return { instances: { instance: [{ id: 1, policy: [{ id: 1, ...pool }, { id: 2, ...pool, ...other }] }] } };
  };
  assert.deepEqual([portsAt(shared({}), "203.0.113.65"), portsAt(shared(range), "203.0.113.65")], [1_000, undefined]);
  const address = { address: "203.0.113.1", "active-flows": "9", "active-mappings": "0" };
  assert.deepEqual([portsInUse(address), portsInUse({ ...address, "active-mappings": "4" })], [9, 4]);
  const set = (last: number, first: number) => ({ "external-address": `203.0.113.${last}`, "first-port": first, "last-port": first + 511 });
  const subscriber = { prefix: "10.0.0.7/32", instance: 1, policy: 20, "port-set": [set(1, 1_536), set(1, 1_024), set(2, 2_048)] };
  assert.deepEqual(portRanges(subscriber), ["203.0.113.1:1024–2047", "203.0.113.2:2048–2559"]);
});

test("mappings have ends, and leases senders", () => {
  assert.equal(staticEnd("10.0.1.80/32", "80-81"), "10.0.1.80:80–81");
  assert.equal(staticEnd("10.0.1.64/30", undefined), "10.0.1.64/30");
  assert.equal(senders({ kind: "map" }), "anybody");
  assert.equal(senders({ kind: "peer", peer: [{ prefix: "198.51.100.9/32", port: 443 }, { prefix: "192.0.2.0/24" }] }), "198.51.100.9:443, 192.0.2.0/24");
});
