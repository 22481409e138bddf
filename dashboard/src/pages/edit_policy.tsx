// The forms of policy rules, in the order of their evaluation.
import type { JSX } from "preact";
import type { Members } from "../edits";
import { CheckField, ChoiceField, TextField, named } from "../fields";
import type { Saving } from "../form_state";
import { interfaceNames } from "../interface_list";
import { vrfs } from "../new_interface";
import { Card, type Column, Table } from "../parts";
import { OWN_TABLE, PROTOCOLS, REFUSALS, RULE_NODES, type RuleField, type RuleKey, type RuleWish, beside, keyOf, move, moveComplaint } from "../policy_rule";
import { nextPriority, put, remove, review, ruleAt, rulePath, rulesOf, wishKey, wishOf } from "../policy_rule";
import type { PolicyRule } from "../protocols";
import { Edit, EntryForms, type EntryKind, type FormPart, New, linkTo } from "./entry_form";
import { action, conditions } from "./policy";

const FAMILIES: [string, string][] = [
  ["ipv4", "IPv4"],
  ["ipv6", "IPv6"],
];

const ACTIONS: [string, string][] = [["table", "are routed by a table"], ["goto", "continue at another rule"], ...REFUSALS];

const RULE: EntryKind<RuleKey, Members, RuleWish, RuleField> = {
  tab: "policy",
  name: "rule",
  inWords: (key) => `rule ${key.priority} (${key.family === "ipv4" ? "IPv4" : "IPv6"}, VRF ${key.vrf})`,
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

/** The columns of the list of a VRF and family. */
const columns = (whole: Members, saving: Saving): Column<Members>[] => {
  const step = (rule: Members, by: -1 | 1): JSX.Element => {
    const key = keyOf(rule);
    const why = moveComplaint(whole, key, by);
    const words = by < 0 ? "Earlier" : "Later";
    const done = `The ${RULE.inWords(key)} comes ${words.toLowerCase()} in the candidate.`;
    return (
      <button
        disabled={why !== ""}
        {...(why && beside(whole, key, by) ? { title: why } : {})}
        aria-label={`${words}: rule ${key.priority}`}
        onClick={() => void saving.change(done, (desired) => move(desired, key, by))}
      >
        {words}
      </button>
    );
  };
  return [
    {
      name: "Priority",
      show: (rule) => (
        <>
          <a href={linkTo(RULE, keyOf(rule))}>{String(rule["priority"])}</a>
          {Number(rule["priority"]) >= OWN_TABLE && <small class="under">after the table of the VRF</small>}
        </>
      ),
    },
    {
      name: "Packets",
      show: (rule) => (
        <>
          <span class="stack">
            {conditions(rule as unknown as PolicyRule).map((words) => (
              <span>{words}</span>
            ))}
          </span>
          {rule["description"] !== undefined && <small class="under">{String(rule["description"])}</small>}
        </>
      ),
    },
    { name: "Action", show: (rule) => action(rule as unknown as PolicyRule) },
    {
      name: "",
      right: true,
      show: (rule) => (
        <span class="buttons">
          {step(rule, -1)}
          {step(rule, 1)}
          <Edit kind={RULE} of={keyOf(rule)} />
        </span>
      ),
    },
  ];
};

function RuleList({ whole, saving }: { whole: Members; saving: Saving }): JSX.Element {
  const groups = new Map<string, Members[]>();
  for (const rule of rulesOf(whole)) {
    const key = keyOf(rule);
    const name = `${key.family === "ipv4" ? "IPv4" : "IPv6"}, VRF ${key.vrf}`;
    groups.set(name, [...(groups.get(name) ?? []), rule]);
  }
  return (
    <>
      <p class="note">
        Rules are evaluated in ascending priority, before the table of the VRF. <New kind={RULE} />
      </p>
      {[...groups].map(([name, rules]) => (
        <Card title={name} wide>
          <Table caption={`Policy rules, ${name}`} columns={columns(whole, saving)} rows={rules} mark={(rule) => String(rule["priority"])} none="" />
        </Card>
      ))}
      {groups.size === 0 && <p class="none">The candidate has no rule: the destination alone decides.</p>}
    </>
  );
}

export const PolicyForms = ({ whole, segments }: { whole: Members; segments: string[] }): JSX.Element => (
  <EntryForms kind={RULE} whole={whole} segments={segments} fields={Fields} list={(saving) => <RuleList whole={whole} saving={saving} />} />
);
