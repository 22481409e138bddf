import assert from "node:assert/strict";
import { test } from "node:test";
import { isAt, faultsByField } from "../src/field_faults";
import { formLink } from "../src/form_links";
import { RULE_NODES, rulePath } from "../src/policy_rule";
import type { Fault } from "../src/server";
import { routerNodes, wishOf } from "../src/virtual_router";

const fault = (path: string, message = "wrong"): Fault => ({ path, message, tag: "" });
const fields = (found: { at: Map<string, string> }): [string, string][] => [...found.at];
const RULE = rulePath({ vrf: "default", family: "ipv4", priority: 100 });

test("an error is at the field of its node, or of the nearest one above it", () => {
  const found = faultsByField(
    [fault(`${RULE}/match/source-prefix`, "A."), fault(`${RULE}/match/source-port/upper-port`, "B."), fault(`${RULE}/goto`, "C."), fault(RULE, "D."), fault(`${RULE}/match/source-prefix`, "E.")],
    RULE_NODES,
  );
  assert.deepEqual(fields(found), [["source", "A. E."], ["sourcePort", "B."], ["goto", "C."], ["action", "D."]]);
  assert.deepEqual(found.others, []);
});

test("errors of other nodes, and of none, are not at a field", () => {
  const others = [fault("/ietf-interfaces:interfaces/interface[name='lan']/mtu"), fault(""), fault("/ietf-routing:routing")];
  const found = faultsByField(others, RULE_NODES);
  assert.deepEqual([fields(found), found.others], [[], others]);
});

test("a row of a list has its own errors", () => {
  const wish = { ...wishOf(), addresses: ["192.0.2.1", "192.0.2.9"], networks: [{ name: "10.0.0.0/8", decrement: "" }] };
  const base = "/ietf-interfaces:interfaces/interface[name='lan']/ietf-ip:ipv4/ietf-vrrp:vrrp/vrrp-instance[vrid='7']";
  const list = `${base}/virtual-ipv4-addresses/virtual-ipv4-address`;
  const at = (path: string): string | undefined => fields(faultsByField([fault(path)], routerNodes(wish)))[0]?.[0];
  assert.equal(at(`${list}[ipv4-address='192.0.2.9']`), "addresses 1");
  assert.equal(at(`${list}[ipv4-address='192.0.2.5']`), "addresses");
  // The key itself is wrong: the router has no entry to name.
  assert.equal(at(`${list}/ipv4-address`), "addresses");
  assert.equal(at(`${base}/track/networks/network[prefix='10.0.0.0/8']/priority-decrement`), "networks 0");
  // No subnet has an address: the error is at the virtual router.
  assert.equal(at(base), "addresses");
  assert.equal(at(base.replace("ipv4", "ipv6")), undefined);
});

test("the errors of a commit are those of one entry", () => {
  assert.ok(isAt(fault(`${RULE}/goto`), RULE));
  assert.ok(!isAt(fault(RULE.replace("'100'", "'200'")), RULE) && !isAt(fault(""), RULE));
});

test("a node with a form has a link to it", () => {
  const lan = "/ietf-interfaces:interfaces/interface[name='lan 1']";
  assert.equal(formLink(`${RULE}/match/dscp`), "#/configuration/policy/default/ipv4/100");
  assert.equal(formLink(`${lan}/stoa-bfd:bfd/session[dest-addr='fe80::1']`), "#/configuration/bfd/lan%201/fe80%3A%3A1");
  assert.equal(formLink(`${lan}/ietf-ip:ipv6/ietf-vrrp:vrrp/vrrp-instance[vrid='7']/priority`), "#/configuration/vrrp/lan%201/6/7");
  assert.equal(formLink(`${lan}/ietf-ip:ipv4/mtu`), "#/configuration/interfaces/lan%201");
  assert.equal(formLink("/ietf-routing:routing/control-plane-protocols/control-plane-protocol[type='t'][name='n']/static-routes"), "#/configuration/routes");
  assert.equal(formLink("/stoa-system:system/workers"), undefined);
});
