// The policy rule that its form edits: stoa-policy.
import { at, below, copy, entries } from "./candidate";
import { quoted } from "./data_path";
import type { Members } from "./edits";
import type { FieldNode } from "./field_faults";
import { Review, dropEmpty, numberOf, putChanged, putLeaf, textOf } from "./leaves";
import { isBetween } from "./numbers";
import { canonicalPrefix, prefixComplaint } from "./prefixes";

const ROUTING = "ietf-routing:routing";
const POLICY = "stoa-policy:policy";
/** The priority at which the table of the VRF itself is evaluated. */
export const OWN_TABLE = 32_766;
/** The distance between the priorities of new rules. */
const STEP = 10;
const FIRST = 100;
const LAST = 4_294_967_295;

/** Protocols by number. Those with a name can be entered by it. */
export const PROTOCOLS: Record<number, string> = { 1: "ICMP", 6: "TCP", 17: "UDP", 47: "GRE", 50: "ESP", 58: "ICMPv6", 89: "OSPF", 132: "SCTP" };

/** How packets are refused, in words: by policy rules and by static routes. */
export const REFUSALS: [string, string][] = [
  ["blackhole", "are discarded without a word"],
  ["unreachable", "are answered: unreachable"],
  ["prohibit", "are answered: prohibited"],
];

/** The values of the form. */
export interface RuleWish {
  vrf: string;
  family: string;
  /** "": the next free one. */
  priority: string;
  description: string;
  source: string;
  destination: string;
  interface: string;
  dscp: string;
  /** A number or a name. */
  protocol: string;
  /** "53", or "1024-65535". */
  sourcePort: string;
  destinationPort: string;
  /** "table", "goto", or how packets are refused. */
  action: string;
  table: string;
  ignoreDefault: boolean;
  goto: string;
}

export type RuleField = keyof RuleWish;

export interface RuleKey {
  vrf: string;
  family: string;
  priority: number;
}

export const keyOf = (rule: Members): RuleKey => ({ vrf: textOf(rule, "vrf"), family: textOf(rule, "address-family"), priority: Number(rule["priority"]) });

const isOf = (rule: Members, key: RuleKey): boolean => {
  const mine = keyOf(rule);
  return mine.vrf === key.vrf && mine.family === key.family && mine.priority === key.priority;
};

/** The VRF and family of a rule in words. */
export const groupOf = (key: RuleKey): string => `${key.family === "ipv4" ? "IPv4" : "IPv6"}, VRF ${key.vrf}`;

/** Rules in the order of their evaluation. */
export const inOrder = <T extends Members>(rules: T[]): T[] =>
  [...rules].sort((one, other) => {
    const [a, b] = [keyOf(one), keyOf(other)];
    return a.vrf.localeCompare(b.vrf) || a.family.localeCompare(b.family) || a.priority - b.priority;
  });

/** The rules of a configuration, in the order of their evaluation. */
export const rulesOf = (whole: Members): Members[] => inOrder(entries(at(whole, ROUTING, POLICY), "rule"));

export const ruleAt = (whole: Members, key: RuleKey): Members | undefined => rulesOf(whole).find((rule) => isOf(rule, key));

function portsText(ports: Members | undefined): string {
  const [lower, upper] = [ports?.["lower-port"], ports?.["upper-port"]];
  if (lower === undefined) return upper === undefined ? "" : `1-${String(upper)}`;
  return upper === undefined || upper === lower ? String(lower) : `${String(lower)}-${String(upper)}`;
}

/** The ports of a text; `undefined`: it is no port and no range. */
function portsOf(text: string): Members | undefined {
  const [lower = "", upper, ...more] = text.split(/-|\bto\b/).map((one) => one.trim());
  if (!isBetween(lower, 1, 65_535) || more.length > 0) return undefined;
  if (upper === undefined) return { "lower-port": Number(lower) };
  return isBetween(upper, Number(lower), 65_535) ? { "lower-port": Number(lower), "upper-port": Number(upper) } : undefined;
}

/** The number of a protocol by number or name; `undefined`: neither. */
function protocolOf(text: string): number | undefined {
  if (isBetween(text, 0, 255)) return Number(text);
  const named = Object.entries(PROTOCOLS).find(([, name]) => name.toLowerCase() === text.trim().toLowerCase());
  return named && Number(named[0]);
}

/** The form of a rule; without one, that of a new rule. */
export function wishOf(rule?: Members): RuleWish {
  const match = at(rule, "match");
  const protocol = textOf(match, "protocol");
  const action = rule?.["refuse"] ? String(rule["refuse"]) : rule?.["goto"] !== undefined ? "goto" : "table";
  return {
    vrf: rule ? textOf(rule, "vrf") : "default",
    family: rule ? textOf(rule, "address-family") : "ipv4",
    priority: textOf(rule, "priority"),
    description: textOf(rule, "description"),
    source: textOf(match, "source-prefix"),
    destination: textOf(match, "destination-prefix"),
    interface: textOf(match, "interface"),
    dscp: textOf(match, "dscp"),
    protocol: PROTOCOLS[Number(protocol)] ?? protocol,
    sourcePort: portsText(at(match, "source-port")),
    destinationPort: portsText(at(match, "destination-port")),
    action,
    table: textOf(rule, "table"),
    ignoreDefault: rule?.["ignore-default"] === true,
    goto: textOf(rule, "goto"),
  };
}

/** The priority of a rule that follows the others before the table of the VRF. */
export function nextPriority(whole: Members, vrf: string, family: string): number {
  const taken = rulesOf(whole).map(keyOf).filter((key) => key.vrf === vrf && key.family === family).map((key) => key.priority);
  const last = Math.max(FIRST - STEP, ...taken.filter((priority) => priority < OWN_TABLE));
  const next = Math.ceil((last + 1) / STEP) * STEP;
  if (next < OWN_TABLE) return next;
  for (let free = OWN_TABLE - 1; free > 0; free -= 1) if (!taken.includes(free)) return free;
  return OWN_TABLE;
}

/** The key that the form describes. */
export const wishKey = (wish: RuleWish, whole: Members): RuleKey => ({
  vrf: wish.vrf,
  family: wish.family,
  priority: numberOf(wish.priority) ?? nextPriority(whole, wish.vrf, wish.family),
});

/** What is wrong in the form of the rule `before`; `undefined`: of a new one. */
export function review(wish: RuleWish, whole: Members, before?: RuleKey): Review<RuleField> {
  const found = new Review<RuleField>();
  const key = wishKey(wish, whole);
  found.checkText("priority", wish.priority, isBetween(wish.priority, 1, LAST), `Enter a priority from 1 to ${LAST}.`);
  const other = ruleAt(whole, key);
  if (other && !(before && isOf(other, before))) found.check("priority", `There is a rule with priority ${key.priority} already.`);
  const family = wish.family === "ipv4" ? 4 : 6;
  for (const field of ["source", "destination"] as const) found.check(field, prefixComplaint(wish[field], family));
  found.checkText("dscp", wish.dscp, isBetween(wish.dscp, 0, 63), "Enter a DSCP from 0 to 63.");
  found.checkText("protocol", wish.protocol, protocolOf(wish.protocol) !== undefined, "Enter a protocol number from 0 to 255, or a name such as TCP.");
  for (const field of ["sourcePort", "destinationPort"] as const) {
    found.checkText(field, wish[field], portsOf(wish[field]) !== undefined, "Enter a port from 1 to 65535, or a range such as 1024-65535.");
  }
  if (wish.action === "table") found.require(wish.table, "Choose the table that routes the packets.");
  if (wish.action === "goto") {
    found.require(wish.goto, "Enter the priority at which the evaluation continues.");
    found.checkText("goto", wish.goto, isBetween(wish.goto, key.priority + 1, LAST), `Enter a priority greater than ${key.priority}.`);
  }
  return found;
}

function putMatch(rule: Members, wish: RuleWish, before: RuleWish): void {
  const match = below(rule, "match");
  putLeaf(match, "source-prefix", canonicalPrefix(wish.source));
  putLeaf(match, "destination-prefix", canonicalPrefix(wish.destination));
  putLeaf(match, "interface", wish.interface);
  putLeaf(match, "dscp", numberOf(wish.dscp));
  putLeaf(match, "protocol", wish.protocol.trim() === "" ? undefined : protocolOf(wish.protocol));
  // Other forms of the same range stay as they are.
  if (wish.sourcePort !== before.sourcePort) putLeaf(match, "source-port", portsOf(wish.sourcePort));
  if (wish.destinationPort !== before.destinationPort) putLeaf(match, "destination-port", portsOf(wish.destinationPort));
  dropEmpty(rule, "match");
}

function putAction(rule: Members, wish: RuleWish, before: RuleWish): void {
  const isTable = wish.action === "table";
  putLeaf(rule, "table", isTable ? wish.table : undefined);
  if (isTable) putChanged(rule, "ignore-default", wish.ignoreDefault, before.ignoreDefault, false);
  else delete rule["ignore-default"];
  putLeaf(rule, "goto", wish.action === "goto" ? numberOf(wish.goto) : undefined);
  putLeaf(rule, "refuse", isTable || wish.action === "goto" ? undefined : wish.action);
}

/** Adds the rule to a configuration, or changes the rule `before`. */
export function put(whole: Members, wish: RuleWish, before?: RuleKey): void {
  const old = before && ruleAt(whole, before);
  const rule: Members = old ? copy(old) : {};
  const was = wishOf(old);
  const key = wishKey(wish, whole);
  Object.assign(rule, { vrf: key.vrf, "address-family": key.family, priority: key.priority });
  putLeaf(rule, "description", wish.description.trim());
  putMatch(rule, wish, was);
  putAction(rule, wish, was);
  const policy = below(whole, ROUTING, POLICY);
  policy["rule"] = [...entries(policy, "rule").filter((one) => one !== old), rule];
}

export function remove(whole: Members, key: RuleKey): void {
  const policy = below(whole, ROUTING, POLICY);
  policy["rule"] = entries(policy, "rule").filter((one) => !isOf(one, key));
}

/** The rule before (-1) or after (1) a rule of the same VRF and family. */
export function beside(whole: Members, key: RuleKey, step: -1 | 1): Members | undefined {
  const group = rulesOf(whole).filter((rule) => rule["vrf"] === key.vrf && rule["address-family"] === key.family);
  const place = group.findIndex((rule) => isOf(rule, key));
  return place < 0 ? undefined : group[place + step];
}

/** Why the rule cannot change places with the one beside it; "": it can. */
export function moveComplaint(whole: Members, key: RuleKey, step: -1 | 1): string {
  const [mine, other] = [ruleAt(whole, key), beside(whole, key, step)];
  if (!mine || !other) return "There is no other rule there.";
  const later = step > 0 ? mine : other;
  const last = Math.max(key.priority, Number(other["priority"]));
  if (later["goto"] === undefined || Number(later["goto"]) > last) return "";
  return `Rule ${String(later["priority"])} continues at priority ${String(later["goto"])}, which would not be after it. Change its action first.`;
}

/** Lets a rule and the one beside it exchange their priorities. */
export function move(whole: Members, key: RuleKey, step: -1 | 1): void {
  const [mine, other] = [ruleAt(whole, key), beside(whole, key, step)];
  if (!mine || !other) return;
  [mine["priority"], other["priority"]] = [other["priority"] ?? null, mine["priority"] ?? null];
}

/** The data path of a rule. */
export const rulePath = (key: RuleKey): string =>
  `/${ROUTING}/${POLICY}/rule[vrf=${quoted(key.vrf)}][address-family='${key.family}'][priority='${key.priority}']`;

const RULE = `/${ROUTING}/${POLICY}/rule`;

/** The nodes of the form. */
export const RULE_NODES: FieldNode[] = [
  [RULE, "action"],
  [`${RULE}/vrf`, "vrf"],
  [`${RULE}/address-family`, "family"],
  [`${RULE}/priority`, "priority"],
  [`${RULE}/description`, "description"],
  [`${RULE}/match/source-prefix`, "source"],
  [`${RULE}/match/destination-prefix`, "destination"],
  [`${RULE}/match/interface`, "interface"],
  [`${RULE}/match/dscp`, "dscp"],
  [`${RULE}/match/protocol`, "protocol"],
  [`${RULE}/match/source-port`, "sourcePort"],
  [`${RULE}/match/destination-port`, "destinationPort"],
  [`${RULE}/table`, "table"],
  [`${RULE}/goto`, "goto"],
];
