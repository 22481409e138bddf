import assert from "node:assert/strict";
import { test } from "node:test";
import { steps } from "../src/data_path";
import { broken, lineOf, locate, placeOf } from "../src/json_places";
import { family, prefix } from "../src/prefixes";
import { link, read } from "../src/route";

const text = `{
  "ietf-interfaces:interfaces": {
    "interface": [
      { "name": "la\\"n", "mtu": 1500 },
      {
        "name": "wan",
        "ietf-ip:ipv4": {
          "address": [
            { "ip": "10.0.0.1", "prefix-length": 99 }
          ]
        }
      }
    ]
  }
}`;

test("an error is shown at its line", () => {
  const line = (path: string): number => lineOf(text, locate(text, path));
  const wan = "/ietf-interfaces:interfaces/interface[name='wan']";
  assert.equal(line(wan), 5);
  assert.equal(line(`${wan}/ietf-ip:ipv4/address[ip='10.0.0.1']/prefix-length`), 9);
  assert.equal(line(`${wan}/ietf-ip:ipv4/address[ip='10.0.0.2']`), 8, "the last on the way");
  assert.equal(line("/ietf-interfaces:interfaces/interface[name='la\"n']/mtu"), 4);
  assert.equal(line("/nowhere:at/all"), 1);
});

test("paths have steps and keys, slashes in quotes too", () => {
  assert.deepEqual(steps("/a:b/c[d='e/f'][g=\"h'i\"]/j"), [
    { name: "a:b", keys: [] },
    { name: "c", keys: [["d", "e/f"], ["g", "h'i"]] },
    { name: "j", keys: [] },
  ]);
});

test("a syntax error has a line and a column", () => {
  const place = (text: string) => placeOf(text, broken(text)?.at ?? -1);
  assert.equal(broken("{}"), undefined);
  assert.equal(place("[1]"), "line 1, column 1");
  assert.equal(place('{\n  "a": 1,\n  b\n}'), "line 3, column 3");
  assert.equal(place('{\n  "a": 1,\n'), "line 3, column 1");
  assert.match(broken('{\n  "a": 1,\n  b\n}')?.message ?? "", /^Not valid JSON: .*[^0-9)]\.$/);
});

test("places of Firefox are understood", () => {
  const parse = JSON.parse;
  try {
    JSON.parse = () => {
      throw new SyntaxError("JSON.parse: expected property name or '}' at line 3 column 4 of the JSON data");
    };
    const found = broken('{\n  "a": 1,\n  bc\n}');
    assert.equal(placeOf('{\n  "a": 1,\n  bc\n}', found?.at ?? 0), "line 3, column 4");
    assert.equal(found?.message, "Not valid JSON: expected property name or '}'.");
  } finally {
    JSON.parse = parse;
  }
});

test("addresses and prefixes", () => {
  assert.deepEqual(prefix("10.0.0.1/24"), { address: "10.0.0.1", length: 24, family: 4 });
  assert.deepEqual(prefix(" fd00::1 "), { address: "fd00::1", length: 128, family: 6 });
  for (const good of ["::", "::1", "1:2:3:4:5:6:7:8", "::ffff:10.0.0.1", "fe80::1"]) assert.equal(family(good), 6, good);
  for (const bad of ["", "10.0.0", "10.0.0.256", ":::", "1::2::3", "g::", "1:2:3", "12345::"]) assert.equal(family(bad), undefined, bad);
  for (const bad of ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "fd00::/129"]) assert.equal(prefix(bad), undefined, bad);
});

test("a place and its link are the same", () => {
  const place = read(link("interfaces", ["eth0/1", "ä b"], { search: "a&b=c", none: "" }));
  assert.deepEqual([place.page, place.rest], ["interfaces", ["eth0/1", "ä b"]]);
  assert.deepEqual([...place.query], [["search", "a&b=c"]]);
  assert.equal(read("").page, "");
  assert.deepEqual(read("#/a/%zz").rest, ["%zz"]);
});
