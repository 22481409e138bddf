// The forms of policy rules, in the order of their evaluation.
import type { JSX } from "preact";
import type { Members } from "../edits";
import { CheckField, ChoiceField, TextField, named } from "../fields";
import type { Saving } from "../form_state";
import { interfaceNames } from "../interface_list";
import { vrfs } from "../new_interface";
import type { Column } from "../parts";
import { OWN_TABLE, PROTOCOLS, REFUSALS, RULE_NODES, type RuleField, type RuleKey, type RuleWish, beside, groupOf, keyOf, move, moveComplaint } from "../policy_rule";
import { nextPriority, put, remove, review, ruleAt, rulePath, rulesOf, wishKey, wishOf } from "../policy_rule";
import type { PolicyRule } from "../protocols";
import { Edit, EntryForms, type EntryKind, type FormPart, New, linkTo } from "./entry_form";
import { RULE_COLUMNS, RuleTables } from "./policy";

const FAMILIES: [string, string][] = [
  ["ipv4", "IPv4"],
  ["ipv6", "IPv6"],
];

const ACTIONS: [string, string][] = [["table", "are routed by a table"], ["goto", "continue at another rule"], ...REFUSALS];

const RULE: EntryKind<RuleKey, Members, RuleWish, RuleField> = {
  tab: "policy",
  name: "rule",
  inWords: (key) => `rule ${key.priority} (${groupOf(key)})`,
  inShort: (key) => `rule ${key.priority}`,
  toUrl: (key) => [key.vrf, key.family, String(key.priority)],
  fromUrl: ([vrf = "", family = "", priority, ...more]) => (priority !== undefined && more.length === 0 ? { vrf, family, priority: Number(priority) } : undefined),
  path: rulePath,
  find: ruleAt,
  wishOf,
  wishKey,
  nodes: () => RULE_NODES,
  review,
  put,
  remove,
};

type Part = FormPart<RuleWish, RuleField>;

const Match = ({ whole, field }: Part): JSX.Element => (
  <fieldset>
    <legend>Matches packets with all of these; if all are empty, all packets</legend>
    <div class="pair">
      <TextField {...field("source")} label="Source prefix" isMono />
      <TextField {...field("destination")} label="Destination prefix" isMono />
      <ChoiceField {...field("interface")} label="Received by interface" choices={[["", "any"], ...named(interfaceNames(whole))]} />
      <TextField {...field("dscp")} label="DSCP" hint="0 to 63" isMono isNumber />
      <TextField {...field("protocol")} label="Protocol" hint="a number, or a name such as TCP" isMono options={Object.values(PROTOCOLS)} />
      <TextField {...field("sourcePort")} name="source-port" label="Source port" hint="a port or a range: 1024-65535" isMono />
      <TextField {...field("destinationPort")} name="destination-port" label="Destination port" hint="a port or a range: 1024-65535" isMono />
    </div>
  </fieldset>
);

const Fields = (part: Part): JSX.Element => {
  const { whole, wish, field } = part;
  const tables = named(["default", ...vrfs(whole)]);
  const order = "lower values come first";
  return (
    <>
      <div class="pair">
        <ChoiceField {...field("vrf")} label="Packets received in VRF" choices={tables} />
        <ChoiceField {...field("family")} label="Address family" choices={FAMILIES} />
        <TextField
          {...field("priority")}
          label="Priority"
          hint={wish.priority.trim() === "" ? `${order}; if empty, ${nextPriority(whole, wish.vrf, wish.family)}` : order}
          isMono
          isNumber
        />
      </div>
      <TextField {...field("description")} label="Description" />
      <Match {...part} />
      <ChoiceField {...field("action")} label="These packets" choices={ACTIONS} />
      {wish.action === "table" && (
        <>
          <ChoiceField {...field("table")} label="Table of VRF" choices={tables} />
          <CheckField {...field("ignoreDefault")} name="ignore-default" label="without the default route of this table" />
        </>
      )}
      {wish.action === "goto" && <TextField {...field("goto")} label="Continue at priority" hint="the first rule of at least this priority" isMono isNumber />}
    </>
  );
};

/** A button that exchanges the priorities of a rule and the one before (-1) or after (1) it. */
function Move({ whole, saving, rule, by }: { whole: Members; saving: Saving; rule: RuleKey; by: -1 | 1 }): JSX.Element {
  const why = moveComplaint(whole, rule, by);
  const words = by < 0 ? "Earlier" : "Later";
  const done = `The ${RULE.inWords(rule)} comes ${words.toLowerCase()} in the candidate.`;
  return (
    <button
      disabled={why !== ""}
      title={why && beside(whole, rule, by) ? why : undefined}
      aria-label={`${words}: rule ${rule.priority}`}
      onClick={() => void saving.change(done, (desired) => move(desired, rule, by))}
    >
      {words}
    </button>
  );
}

const columns = (whole: Members, saving: Saving): Column<PolicyRule>[] => [
  {
    name: "Priority",
    show: (rule) => (
      <>
        <a href={linkTo(RULE, keyOf(rule))}>{rule.priority}</a>
        {rule.priority >= OWN_TABLE && <small class="under">after the table of the VRF</small>}
      </>
    ),
  },
  ...RULE_COLUMNS,
  {
    name: "",
    right: true,
    show: (rule) => (
      <span class="buttons">
        <Move whole={whole} saving={saving} rule={keyOf(rule)} by={-1} />
        <Move whole={whole} saving={saving} rule={keyOf(rule)} by={1} />
        <Edit kind={RULE} of={keyOf(rule)} />
      </span>
    ),
  },
];

const RuleList = ({ whole, saving }: { whole: Members; saving: Saving }): JSX.Element => (
  <>
    <p class="note">
      Rules are evaluated in ascending priority, before the table of the VRF. <New kind={RULE} />
    </p>
    <RuleTables rules={rulesOf(whole) as PolicyRule[]} columns={columns(whole, saving)} none="The candidate has no rule" />
  </>
);

export const PolicyForms = ({ whole, segments }: { whole: Members; segments: string[] }): JSX.Element => (
  <EntryForms kind={RULE} whole={whole} segments={segments} fields={Fields} list={(saving) => <RuleList whole={whole} saving={saving} />} />
);
