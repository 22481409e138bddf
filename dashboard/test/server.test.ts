import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Failure, ask, logOut, routerName, user } from "../src/server";

const kept = new Map<string, string>();
let reloads = 0;
let status = 200;
const page = { host: "localhost:8443", hash: "#/configuration/json", reload: () => void (reloads += 1) };
Object.assign(globalThis, {
  location: page,
  sessionStorage: { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) },
  fetch: async () => {
    if (status === 0) throw new TypeError("no route");
    return new Response("{}", { status });
  },
});

beforeEach(() => {
  kept.clear();
  reloads = 0;
  page.hash = "#/configuration/json";
  user.set({ user: "ann", admin: true });
});

test("after log-out the page begins anew, at its first place", async () => {
  status = 200;
  await logOut();
  assert.deepEqual([reloads, page.hash, kept.get("stoa-logout-reason")], [1, "", ""]);
});

test("a session that ended begins the page anew, and says why", async () => {
  status = 401;
  await assert.rejects(ask("GET", "/restconf/data"), Failure);
  assert.equal(reloads, 1);
  assert.match(kept.get("stoa-logout-reason") ?? "", /session has ended/);
});

test("a wrong password does not begin it anew", async () => {
  status = 401;
  user.set(null);
  await assert.rejects(ask("POST", "/login", {}), Failure);
  assert.equal(reloads, 0);
});

test("without a response the user stays logged in", async () => {
  status = 0;
  await assert.rejects(logOut(), Failure);
  assert.deepEqual([reloads, page.hash], [0, "#/configuration/json"]);
});

test("the page has the name of the router, not that of a tunnel", () => {
  assert.equal(routerName({ user: "ann", admin: true, router: "edge1" }), "edge1");
  assert.equal(routerName(null), "localhost:8443");
});
