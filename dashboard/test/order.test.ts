import assert from "node:assert/strict";
import { test } from "node:test";
import { arrangement, isArranged, moves } from "../src/order";

const spots = (from: string[], to: string[]) => arrangement(from, to.map((mark) => ({ mark, value: mark })));

/** What a router makes of the moves. */
function moved(now: string[], from: string[], to: string[]): string[] {
  const row = [...now];
  for (const { spot, after } of moves(now, spots(from, to) ?? [])) {
    row.splice(row.indexOf(spot.mark), 1);
    row.splice(after === undefined ? 0 : row.indexOf(after) + 1, 0, spot.mark);
  }
  return row;
}

function permutations(list: string[]): string[][] {
  if (list.length < 2) return [list];
  return list.flatMap((one) => permutations(list.filter((other) => other !== one)).map((rest) => [one, ...rest]));
}

test("every order is reached from every other, with new entries at the end first", () => {
  const all = ["a", "b", "c", "d", "e"];
  for (const to of permutations(all)) {
    for (let count = 0; count <= all.length; count += 1) {
      const from = all.slice(0, count);
      // A merge appends what is new, in the order of the body.
      const now = [...from, ...to.filter((mark) => !from.includes(mark))];
      assert.deepEqual(moved(now, from, to), to, `${from} to ${to}`);
    }
  }
});

test("entries move only when necessary, and not for new ones", () => {
  const roles = (from: string[], to: string[]) => (spots(from, to) ?? []).filter(({ role }) => role === "moves").map(({ mark }) => mark);
  assert.deepEqual(roles(["a", "b", "c", "d"], ["d", "a", "b", "c"]), ["d"]);
  assert.deepEqual(roles(["a"], ["x", "y", "z", "a"]), []);
  assert.equal(spots(["a", "b"], ["a", "b"]), undefined);
  assert.deepEqual(moves(["a", "b", "n"], spots(["a", "b"], ["a", "b", "n"]) ?? []), []);
});

test("concurrent changes stay, and are no change of order", () => {
  const desired = spots(["a", "b"], ["b", "a"]) ?? [];
  assert.deepEqual(moved(["a", "x", "b"], ["a", "b"], ["b", "a"]).filter((mark) => mark !== "x"), ["b", "a"]);
  assert.ok(isArranged(["b", "x", "a"], desired));
  assert.ok(!isArranged(["a", "x", "b"], desired) && !isArranged(["b"], desired));
});
