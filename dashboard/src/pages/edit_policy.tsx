// The forms of policy rules, in the order of their evaluation.
import type { JSX } from "preact";
import type { Members } from "../edits";
import { CheckField, ChoiceField, TextField, named } from "../fields";
import { type Saving, useDraft, useSave } from "../form_state";
import { interfaceNames } from "../interface_list";
import { vrfs } from "../new_interface";
import { Card, type Column, Faults, Table } from "../parts";
import { OWN_TABLE, PROTOCOLS, REFUSALS, RULE_NODES, type RuleField, type RuleKey, beside, keyOf, move, moveComplaint } from "../policy_rule";
import { nextPriority, put, remove, review, ruleAt, rulePath, rulesOf, wishKey, wishOf } from "../policy_rule";
import type { PolicyRule } from "../protocols";
import { link } from "../route";
import { EntryForm, NotThere, Saved, useFaults, wrongAt } from "./entry_form";
import { action, conditions } from "./policy";

const FAMILIES: [string, string][] = [
  ["ipv4", "IPv4"],
  ["ipv6", "IPv6"],
];

const ACTIONS: [string, string][] = [["table", "are routed by a table"], ["goto", "continue at another rule"], ...REFUSALS];

const linkTo = (key: RuleKey): string => link("configuration", ["policy", key.vrf, key.family, String(key.priority)]);
const inWords = (key: RuleKey): string => `rule ${key.priority} (${key.family === "ipv4" ? "IPv4" : "IPv6"}, VRF ${key.vrf})`;

/** The form of the rule `before`, or of a new one. */
function RuleForm({ whole, before, saving }: { whole: Members; before?: RuleKey; saving: Saving }): JSX.Element {
  const draft = useDraft(before ? rulePath(before) : "", wishOf(before && ruleAt(whole, before)));
  const wish = draft.form;
  const set = (part: Partial<typeof wish>): void => draft.set({ ...wish, ...part });
  const complaints = review(wish, whole, before);
  const found = useFaults(saving, RULE_NODES, before && rulePath(before));
  const wrong = (field: RuleField): string | undefined => wrongAt(complaints, found, field);
  const tables = named(["default", ...vrfs(whole)]);
  const what = inWords(before ?? wishKey(wish, whole));
  return (
    <EntryForm
      title={before ? `Change ${what}` : "New rule"}
      tab="policy"
      draft={draft}
      complaints={complaints}
      found={found}
      isNew={before === undefined}
      what={before ? `rule ${before.priority}` : ""}
      save={() => saving.change(`The ${inWords(wishKey(wish, whole))} is saved in the candidate.`, (desired) => put(desired, wish, before))}
      remove={() => saving.change(`The ${what} is removed from the candidate.`, (desired) => before && remove(desired, before))}
    >
      <div class="pair">
        <ChoiceField name="vrf" label="Packets received in VRF" value={wish.vrf} set={(vrf) => set({ vrf })} choices={tables} wrong={wrong("vrf")} />
        <ChoiceField name="family" label="Address family" value={wish.family} set={(family) => set({ family })} choices={FAMILIES} wrong={wrong("family")} />
        <TextField
          name="priority"
          label="Priority"
          hint={wish.priority.trim() === "" ? `lower values come first; if empty, ${nextPriority(whole, wish.vrf, wish.family)}` : "lower values come first"}
          value={wish.priority}
          set={(priority) => set({ priority })}
          isMono
          isNumber
          wrong={wrong("priority")}
        />
      </div>
      <TextField name="description" label="Description" value={wish.description} set={(description) => set({ description })} wrong={wrong("description")} />
      <fieldset>
        <legend>Matches packets with all of these; if all are empty, all packets</legend>
        <div class="pair">
          <TextField name="source" label="Source prefix" value={wish.source} set={(source) => set({ source })} isMono wrong={wrong("source")} />
          <TextField name="destination" label="Destination prefix" value={wish.destination} set={(destination) => set({ destination })} isMono wrong={wrong("destination")} />
          <ChoiceField
            name="interface"
            label="Received by interface"
            value={wish.interface}
            set={(name) => set({ interface: name })}
            choices={[["", "any"], ...named(interfaceNames(whole))]}
            wrong={wrong("interface")}
          />
          <TextField name="dscp" label="DSCP" hint="0 to 63" value={wish.dscp} set={(dscp) => set({ dscp })} isMono isNumber wrong={wrong("dscp")} />
          <TextField
            name="protocol"
            label="Protocol"
            hint="a number, or a name such as TCP"
            value={wish.protocol}
            set={(protocol) => set({ protocol })}
            isMono
            options={Object.values(PROTOCOLS)}
            wrong={wrong("protocol")}
          />
          <TextField name="source-port" label="Source port" hint="a port or a range: 1024-65535" value={wish.sourcePort} set={(sourcePort) => set({ sourcePort })} isMono wrong={wrong("sourcePort")} />
          <TextField
            name="destination-port"
            label="Destination port"
            hint="a port or a range: 1024-65535"
            value={wish.destinationPort}
            set={(destinationPort) => set({ destinationPort })}
            isMono
            wrong={wrong("destinationPort")}
          />
        </div>
      </fieldset>
      <ChoiceField name="action" label="These packets" value={wish.action} set={(next) => set({ action: next })} choices={ACTIONS} wrong={wrong("action")} />
      {wish.action === "table" && (
        <>
          <ChoiceField name="table" label="Table of VRF" value={wish.table} set={(table) => set({ table })} choices={tables} wrong={wrong("table")} />
          <CheckField name="ignore-default" label="without the default route of this table" value={wish.ignoreDefault} set={(ignoreDefault) => set({ ignoreDefault })} />
        </>
      )}
      {wish.action === "goto" && (
        <TextField name="goto" label="Continue at priority" hint="the first rule of at least this priority" value={wish.goto} set={(goto) => set({ goto })} isMono isNumber wrong={wrong("goto")} />
      )}
    </EntryForm>
  );
}

/** The columns of the list of a VRF and family. */
const columns = (whole: Members, saving: Saving): Column<Members>[] => {
  const step = (rule: Members, by: -1 | 1): JSX.Element => {
    const key = keyOf(rule);
    const why = moveComplaint(whole, key, by);
    const words = by < 0 ? "Earlier" : "Later";
    const done = `The ${inWords(key)} comes ${words.toLowerCase()} in the candidate.`;
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
          <a href={linkTo(keyOf(rule))}>{String(rule["priority"])}</a>
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
          <a class="button" href={linkTo(keyOf(rule))} aria-label={`Edit rule ${String(rule["priority"])}`}>
            Edit
          </a>
        </span>
      ),
    },
  ];
};

export function PolicyForms({ whole, keys }: { whole: Members; keys: string[] }): JSX.Element {
  const saving = useSave(whole, keys.join(" "));
  const [vrf = "", family = "", priority = ""] = keys;
  const chosen = keys.length === 3 ? { vrf, family, priority: Number(priority) } : undefined;
  const isThere = chosen !== undefined && ruleAt(whole, chosen) !== undefined;
  const groups = new Map<string, Members[]>();
  for (const rule of rulesOf(whole)) {
    const key = keyOf(rule);
    const name = `${key.family === "ipv4" ? "IPv4" : "IPv6"}, VRF ${key.vrf}`;
    groups.set(name, [...(groups.get(name) ?? []), rule]);
  }
  const isOpen = vrf === "new" && keys.length === 1;
  return (
    <>
      {isOpen && <RuleForm key="new" whole={whole} saving={saving} />}
      {chosen && isThere && <RuleForm key={rulePath(chosen)} whole={whole} before={chosen} saving={saving} />}
      {chosen && !isThere && <NotThere words={inWords(chosen)} tab="policy" />}
      <Saved words={saving.saved} />
      {!isOpen && !isThere && <Faults faults={saving.failure?.faults ?? []} />}
      <p class="note">
        Rules are evaluated in ascending priority, before the table of the VRF.{" "}
        <a class="button" href={link("configuration", ["policy", "new"])}>
          New rule
        </a>
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
