import assert from "node:assert/strict";
import { test } from "node:test";
import { withParts, wordsOf } from "../src/deactivated";
import type { Change } from "../src/yang";

const LAN = "/ietf-interfaces:interfaces/interface[name='lan one']";
const NODE = 'interfaces interface "lan one"';
const PART = `/stoa-annotations:deactivated/part[node='${NODE}']`;
const LINES = `set ${NODE} description office\n`;

test("a path has the words of the console", () => {
  assert.equal(wordsOf(`${LAN}/ietf-ip:ipv4/address[ip='10.0.0.1']`), `${NODE} ipv4 address 10.0.0.1`);
  assert.equal(wordsOf("/stoa-system:system/workers/cpus[.='0']"), "system workers cpus 0");
});

test("a deactivated node is one row with the lines that are kept", () => {
  const other: Change = { operation: "delete", path: "/stoa-vrf:vrfs/vrf[name='red']" };
  const list: Change[] = [
    { operation: "delete", path: LAN },
    { operation: "delete", path: `${LAN}/description`, old: "office" },
    other,
    { operation: "create", path: PART },
    { operation: "create", path: `${PART}/inactive-lines`, new: LINES },
  ];
  assert.deepEqual(withParts(list), [other, { operation: "deactivate", path: NODE, new: LINES }]);
  // An entry of a list that has an order of its own keeps its position, too.
  const position: Change[] = [
    { operation: "create", path: `${PART}/position` },
    { operation: "create", path: `${PART}/position/after[.='web']`, new: "web" },
  ];
  assert.deepEqual(withParts([...list, ...position]), withParts(list));
  // Without the right to read the lines.
  assert.deepEqual(withParts(list.slice(0, 4)), [other, { operation: "deactivate", path: NODE }]);
});

test("an activated node is a row before what comes into effect", () => {
  const created: Change[] = [
    { operation: "create", path: LAN },
    { operation: "create", path: `${LAN}/description`, new: "office" },
  ];
  const gone: Change[] = [
    { operation: "delete", path: PART },
    { operation: "delete", path: `${PART}/inactive-lines`, old: LINES },
  ];
  assert.deepEqual(withParts([...gone, ...created]), [{ operation: "activate", path: NODE }, ...created]);
  assert.deepEqual(withParts(gone), gone, "a part that is removed was not activated");
});
