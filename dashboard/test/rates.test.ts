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

test("a series shows pauses", () => {
  const series = new Series(2);
  for (const time of [1, 2, 3]) series.add(time, [time, null]);
  series.add(3, [9, 9]);
  assert.deepEqual(series.times, [1, 2, 3]);
  series.add(20, [5, 6]);
  assert.deepEqual(series.times, [1, 2, 3, 4, 20]);
  assert.deepEqual(series.values, [[1, 2, 3, null, 5], [null, null, null, null, 6]]);
  assert.deepEqual([series.last(0), series.last(1)], [5, 6]);
});

test("older values are means, and a series is bounded by an hour", () => {
  const series = new Series(1);
  for (let time = 1_000; time < 9_000; time += 1) series.add(time, [time % 10]);
  assert.ok(series.times.length <= 361 + 140, String(series.times.length));
  assert.ok((series.times[0] ?? 0) > 9_000 - 3_620);
  assert.deepEqual(series.values[0]?.slice(0, 3), [4.5, 4.5, 4.5]);
  assert.deepEqual(series.values[0]?.slice(-3), [7, 8, 9]);
});

test("the hour before the page comes from the router, as does what a pause left out", () => {
  const past = (end: number) => Array.from({ length: 6 }, (_, at) => ({ time: end - (5 - at) * 10, row: [at] }));
  const series = new Series(1);
  series.add(1_000, [70]);
  series.add(1_001, [71]);
  series.seed(past(1_000));
  assert.deepEqual(series.times, [950, 960, 970, 980, 990, 1_000, 1_001]);
  assert.deepEqual(series.values, [[0, 1, 2, 3, 4, 70, 71]]);
  // The page was hidden for a minute, and shows again.
  series.seed(past(1_060));
  series.add(1_065, [80]);
  assert.deepEqual(series.times, [1_010, 1_020, 1_030, 1_040, 1_050, 1_060, 1_065]);
  // Values before the history.
  series.add(1_080, [81]);
  series.seed(past(1_080));
  assert.deepEqual(series.times, [1_030, 1_040, 1_050, 1_060, 1_070, 1_080]);
});
