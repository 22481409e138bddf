import assert from "node:assert/strict";
import { test } from "node:test";
import { Series } from "../src/rates";
import { sparkline } from "../src/sparkline";
import { parse, seed } from "../src/traffic";

const written = (text: string) => ({ "in-packets": text, "out-packets": text, "in-bits": text, "out-bits": text, dropped: text });

test("the history has the times of the page, and gaps", () => {
  const found = parse({ interval: 10, age: 4_000, total: written("- 0 1.5"), interface: [{ name: "lan", ...written("1 2 3") }] }, 1_004);
  assert.deepEqual(found.times, [980, 990, 1_000]);
  assert.deepEqual(found.total?.["in-bits"], [null, 0, 1.5]);
  assert.deepEqual(found.interfaces.get("lan")?.dropped, [1, 2, 3]);
  assert.deepEqual(parse({}, 1_000), { times: [], total: undefined, interfaces: new Map() });
});

test("charts begin with the history", () => {
  const [bits, packets] = [new Series(2), new Series(3)];
  const found = parse({ interval: 10, age: 0, interface: [{ name: "lan", ...written("5 -") }] }, 1_000);
  const lan = found.interfaces.get("lan");
  assert.ok(lan);
  seed(bits, packets, found.times, lan);
  assert.deepEqual(bits.values, [[5, null], [5, null]]);
  assert.equal(packets.values.length, 3);
});

test("a sparkline is broken at gaps and fits its box", () => {
  assert.equal(sparkline([0, 10, null, 5], 10, 30, 12), "M0.0 11.0L10.0 1.0M30.0 6.0");
  assert.equal(sparkline([0, 0], 0, 30, 12), "M0.0 11.0L30.0 11.0");
  assert.equal(sparkline([5, 5], 10, 30, 12), "M0.0 6.0L30.0 6.0");
  assert.equal(sparkline([null, null], 0, 30, 12), "");
});
