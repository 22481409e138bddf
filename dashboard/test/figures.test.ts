import assert from "node:assert/strict";
import { test } from "node:test";
import { bitRate, count, duration, number, packetRate, percent, scaled } from "../src/figures";

test("figures have a unit and few digits", () => {
  assert.equal(bitRate(0), "0 bit/s");
  assert.equal(bitRate(999), "999 bit/s");
  assert.equal(bitRate(999_600), "1.00 Mbit/s");
  assert.equal(bitRate(1_234_567), "1.23 Mbit/s");
  assert.equal(bitRate(94_000_000_000), "94.0 Gbit/s");
  assert.equal(packetRate(0.4), "0.40 pkt/s");
  assert.equal(packetRate(12.34), "12 pkt/s");
  assert.equal(scaled(Number.NaN, "B"), "– B");
  assert.equal(scaled(-1500, "B"), "−1.50 kB");
});

test("counts, shares and times", () => {
  assert.equal(count(1234567), "1\u202f234\u202f567");
  assert.equal(count(12), "12");
  assert.equal(percent(0), "0 %");
  assert.equal(percent(0.123), "12 %");
  assert.equal(percent(0.0123), "1.2 %");
  assert.equal(duration(0), "0 s");
  assert.equal(duration(59.9), "59 s");
  assert.equal(duration(3_600), "1 h");
  assert.equal(duration(90_061), "1 d 1 h");
  assert.equal(number("18446744073709551615"), 18446744073709552000);
  assert.equal(number(undefined), 0);
});
