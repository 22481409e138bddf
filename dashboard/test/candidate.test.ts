import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { candidate, load, save } from "../src/candidate";
import type { Members } from "../src/edits";
import { commitFaults } from "../src/field_faults";
import { Failure, user } from "../src/server";

const ordered = { put: { parameters: [{ name: "insert" }] } };
const DESCRIBED = {
  paths: {
    "/restconf/data/m:top/rule={rule-name}": ordered,
    "/restconf/data/m:top/rule={rule-name}/action": {},
    "/restconf/data/m:top/server={server-name}": ordered,
    "/restconf/data/m:top/server={server-name}/shared-secret": {},
  },
};

/** A router as far as is desired here: one container with lists of names; new entries go to the end. */
let top: Record<string, Members[]>;
let asked: string[];
/** It does as if it put an entry to its place. */
let isDeaf: boolean;

function answer(method: string, url: URL, body: Record<string, unknown>): unknown {
  if (url.pathname === "/openapi.json") return DESCRIBED;
  if (url.pathname.startsWith("/restconf/operations")) return {};
  if (method === "GET") return { "ietf-restconf:data": { "m:top": JSON.parse(JSON.stringify(top).replace(/,"shared-secret":"[^"]*"/g, "")) } };
  asked.push(`${method} ${url.pathname.split(":candidate")[1]}${decodeURIComponent(url.search)}`);
  if (method === "PATCH") {
    const merge = (body["ietf-restconf:data"] as Record<string, Record<string, Members[]>>)["m:top"] ?? {};
    for (const [name, list] of Object.entries(merge)) {
      for (const entry of list) {
        const same = top[name]?.find((one) => one["name"] === entry["name"]);
        if (same) Object.assign(same, entry);
        else (top[name] ??= []).push(entry);
      }
    }
    return undefined;
  }
  const [, list = "", name] = /m:top\/(\w+)=(\w+)$/.exec(url.pathname) ?? [];
  const rest = (top[list] ?? []).filter((one) => one["name"] !== name);
  if (method === "PUT") {
    if (isDeaf) return undefined;
    const point = url.searchParams.get("point")?.split("=")[1];
    const place = point === undefined ? 0 : rest.findIndex((one) => one["name"] === point) + 1;
    rest.splice(place, 0, (body[`m:${list}`] as Members[])[0] ?? {});
  }
  top[list] = rest;
  return undefined;
}

globalThis.fetch = (async (path: string, init: RequestInit) => {
  const reply = answer(init.method ?? "GET", new URL(path, "https://router"), JSON.parse(String(init.body ?? "{}")) as Record<string, unknown>);
  return new Response(reply === undefined ? null : JSON.stringify(reply), { status: reply === undefined ? 204 : 200 });
}) as typeof fetch;

const whole = (lists: Record<string, Members[]>): Members => ({ "m:top": lists });
const names = (list: string): unknown[] => (top[list] ?? []).map((one) => one["name"]);
const rule = (name: string, action = "permit"): Members => ({ name, action });

beforeEach(() => {
  asked = [];
  isDeaf = false;
  user.set({ user: "ann", admin: true });
  top = { rule: [rule("a"), rule("b")], server: [{ name: "one", "shared-secret": "s1" }, { name: "two", "shared-secret": "s2" }] };
});

test("a rule that is typed above the others comes to stand there", async () => {
  const other = await save(whole({ rule: [rule("a"), rule("b")] }), whole({ rule: [rule("n", "deny"), rule("a"), rule("b")] }));
  assert.deepEqual([other, names("rule")], [[], ["n", "a", "b"]]);
  assert.deepEqual(asked, ["PATCH ", "PUT /m:top/rule=n?insert=first"]);
  assert.deepEqual((candidate.value?.["m:top"] as Members)["rule"], [rule("n", "deny"), rule("a"), rule("b")]);
});

test("a change of order alone is sent, with concurrent changes of the moved entry", async () => {
  const old = whole({ rule: [rule("a"), rule("b")] });
  (top["rule"]?.[0] ?? {})["action"] = "deny";
  const other = await save(old, whole({ rule: [rule("b"), rule("a")] }));
  assert.deepEqual([other, names("rule")], [[], ["b", "a"]]);
  assert.deepEqual(top["rule"], [rule("b"), rule("a", "deny")]);
  assert.ok(asked.every((one) => one.startsWith("PUT /m:top/rule=")), asked.join());
});

test("a list that the router orders differently is reported with its path", async () => {
  isDeaf = true;
  const other = await save(whole({ rule: [rule("a"), rule("b")] }), whole({ rule: [rule("b"), rule("a")] }));
  assert.deepEqual(other, ["/m:top/rule"]);
  assert.deepEqual(((candidate.value?.["m:top"] as Members)["rule"] as Members[]).map((one) => one["name"]), ["a", "b"]);
});

test("entries with hidden parts do not move without them, and nothing is sent", async () => {
  const server = (name: string, secret?: string): Members => ({ name, ...(secret && { "shared-secret": secret }) });
  const old = whole({ server: [server("one"), server("two")] });
  const refused = (error: Failure): boolean => error.message.includes("shared-secret") && error.message.includes("/m:top/server");
  await assert.rejects(save(old, whole({ server: [server("two"), server("one")] })), refused);
  assert.deepEqual(asked, []);
  // New ones find their place, and nobody else has to move.
  await save(old, whole({ server: [server("new", "s0"), server("one"), server("two")] }));
  assert.deepEqual(top["server"], [server("new", "s0"), server("one", "s1"), server("two", "s2")]);
  // With all secrets typed, it is done.
  const now = whole({ server: [server("new"), server("one"), server("two")] });
  await save(now, whole({ server: [server("new"), server("two", "s2"), server("one", "s1")] }));
  assert.deepEqual(top["server"], [server("new", "s0"), server("two", "s2"), server("one", "s1")]);
});

test("who may not see everything moves nothing", async () => {
  user.set({ user: "bob", admin: false });
  await assert.rejects(save(whole({ rule: [rule("a"), rule("b")] }), whole({ rule: [rule("b"), rule("a")] })), /administrator/);
  assert.deepEqual(asked, []);
});

test("the errors of a commit are forgotten when the candidate changes", async () => {
  await load();
  const faults = [{ path: "/m:top/rule[name='a']", message: "wrong", tag: "" }];
  commitFaults.set(faults);
  await load();
  assert.equal(commitFaults.value, faults);
  (top["rule"]?.[0] ?? {})["action"] = "deny";
  await load();
  assert.deepEqual(commitFaults.value, []);
});
