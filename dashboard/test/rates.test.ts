import assert from "node:assert/strict";
import { test } from "node:test";
import { Meter, Series, rates } from "../src/rates";

const sample = (at: number, counters: Record<string, number>) => ({ at, counters: new Map(Object.entries(counters)) });

test("a rate is the difference of two looks by the time between", () => {
  const found = rates(sample(1_000, { a: 10, b: 5, c: 7 }), sample(3_000, { a: 30, b: 5, d: 1 }));
  assert.deepEqual([...found], [["a", 10], ["b", 0]]);
});

test("a counter that began again has no rate", () => {
  assert.deepEqual([...rates(sample(0, { a: 10 }), sample(1_000, { a: 9 }))], []);
  assert.deepEqual([...rates(undefined, sample(1_000, { a: 9 }))], []);
});

test("looks that are too close together change nothing", () => {
  const meter = new Meter();
  meter.take(new Map([["a", 0]]), 0);
  assert.equal(meter.take(new Map([["a", 100]]), 1_000).get("a"), 100);
  assert.equal(meter.take(new Map([["a", 500]]), 1_100).get("a"), 100);
  assert.equal(meter.take(new Map([["a", 300]]), 2_000).get("a"), 200);
});

test("a series is bounded and shows pauses", () => {
  const series = new Series(2, 4);
  for (const time of [1, 2, 3]) series.add(time, [time, null]);
  series.add(3, [9, 9]);
  assert.deepEqual(series.times, [1, 2, 3]);
  series.add(20, [5, 6]);
  assert.deepEqual(series.times, [2, 3, 4, 20]);
  assert.deepEqual(series.values, [[2, 3, null, 5], [null, null, null, 6]]);
});
