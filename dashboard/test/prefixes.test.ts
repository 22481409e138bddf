import assert from "node:assert/strict";
import { test } from "node:test";
import type { Members } from "../src/edits";
import { scaled, unscaled } from "../src/numbers";
import { NOTHING, add, complaint } from "../src/pages/edit_routes";
import { canonical, canonicalPrefix, network, prefixComplaint } from "../src/prefixes";
import { changed } from "./configurations";

test("addresses have the form of the router", () => {
  const forms = ["2001:DB8:0:0::1", "::", "FE80::0001", "::ffff:192.0.2.1", "::192.0.2.1", "2001:db8:0:1:1:1:1:1", " 192.0.2.1 ", "no address"];
  assert.deepEqual(forms.map(canonical), ["2001:db8::1", "::", "fe80::1", "::ffff:192.0.2.1", "::192.0.2.1", "2001:db8:0:1:1:1:1:1", "192.0.2.1", "no address"]);
  assert.deepEqual(["2001:DB8::/32", "10.0.0.0/8", "", "x/y"].map(canonicalPrefix), ["2001:db8::/32", "10.0.0.0/8", "", "x/y"]);
});

test("a route whose prefix is written anew is replaced, and not deleted after", () => {
  const made = (old: Members, prefix: string, address: string): Members => changed(old, (next) => add(next, { ...NOTHING, prefix, address }));
  const old = made({}, "2001:db8::/32", "fe80::1");
  assert.deepEqual(made(old, "2001:DB8::/32", "fe80::2"), made({}, "2001:db8::/32", "fe80::2"));
  assert.match(JSON.stringify(old), /"destination-prefix":"2001:db8::\/32".*"next-hop-address":"fe80::1"/);
});

test("a static route with host bits is refused with the prefixes that may be meant", () => {
  const of = (prefix: string): string => complaint({ ...NOTHING, prefix, special: "blackhole" });
  assert.equal(of(" 10.1.2.3/8"), "The destination 10.1.2.3/8 has host bits set. Write 10.0.0.0/8 for the network, or 10.1.2.3/32 for this address alone.");
  assert.match(of("2001:DB8::1/32"), /Write 2001:db8::\/32 for the network, or 2001:db8::1\/128 for this address alone/);
  assert.deepEqual(["10.0.0.0/8", "2001:DB8::/32", "192.0.2.1/32", "0.0.0.0/0"].map(of), ["", "", "", ""]);
  assert.match(of("10.0.0.0"), /Enter a prefix/);
});

test("numbers are read with their decimal places", () => {
  assert.deepEqual(["1.5", "0.01", "40", "1.005", "-1", "", "1e3"].map((text) => scaled(text, 2)), [150, 1, 4000, undefined, undefined, undefined, undefined]);
  assert.deepEqual([unscaled(150, 2), unscaled(50_500, 3), unscaled(100, 2)], ["1.5", "50.5", "1"]);
});

test("host bits are found", () => {
  const given = ["10.1.2.3/8", "192.0.2.129/25", "0.0.0.0/0", "2001:DB8:ffff::1/33", "::1/0", "fe80::1/128", "::ffff:10.0.0.1/127", "10.0.0.0/33"];
  const right = ["10.0.0.0/8", "192.0.2.128/25", "0.0.0.0/0", "2001:db8:8000::/33", "::/0", "fe80::1/128", "::ffff:10.0.0.0/127", undefined];
  assert.deepEqual(given.map(network), right);
  // The router clears them silently: the typed key would not be that of the entry.
  assert.equal(prefixComplaint(" 10.1.2.3/8", 4), "10.1.2.3/8 has host bits set: enter 10.0.0.0/8.");
  assert.deepEqual([prefixComplaint("10.0.0.0/8 ", 4), prefixComplaint("2001:DB8::/32", 6)], ["", ""]);
  assert.match(prefixComplaint("10.0.0.0", 4), /IPv4 prefix/);
});
