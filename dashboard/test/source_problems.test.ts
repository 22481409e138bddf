import assert from "node:assert/strict";
import { test } from "node:test";
import { type SourceSession, sourceProblems } from "../src/source_problems";

const source = (session: object): SourceSession => ({ type: "stoa-routing:fpm", name: "frr", "stoa-routing:route-source": { session } });

test("a routing daemon that is gone is a problem, with the countdown of its routes", () => {
  assert.deepEqual(sourceProblems([source({ open: true, "up-since": "2026-11-24T00:00:00Z", state: "complete" })]), []);
  const [gone] = sourceProblems([source({ open: true, state: "ended", reason: "zebra has closed the connection", "stale-routes": "12", "stale-time-left": 103 })]);
  assert.equal(gone?.mood, "bad");
  assert.equal(gone?.words, "No routes arrive from frr (fpm): zebra has closed the connection. 12 stale routes are still in use and are removed in 1 min 43 s.");
  const [refused] = sourceProblems([source({ open: true, state: "awaited", reason: "zebra has not connected yet", "last-refusal": "user ann is not permitted" })]);
  assert.equal(refused?.words, "No routes arrive from frr (fpm): zebra has not connected yet; a connection was refused: user ann is not permitted.");
  const [first] = sourceProblems([source({ open: true, state: "awaited", reason: "zebra has not connected yet" })]);
  assert.equal(first?.mood, "warn");
  assert.equal(sourceProblems([source({ open: false, state: "awaited", reason: "cannot listen" })])[0]?.mood, "bad");
});
