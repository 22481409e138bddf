// The rules of policy routing.
import type { JSX } from "preact";
import { count, number } from "../figures";
import { Card, type Column, Stack, Table, Waiting } from "../parts";
import { usePoll } from "../poll";
import { PROTOCOLS, groupOf, keyOf } from "../policy_rule";
import { type PolicyRule, policyRules } from "../protocols";
import { link } from "../route";

/** The conditions of a rule in words. */
export function conditions(rule: PolicyRule): string[] {
  const match = rule.match ?? {};
  const ports = (name: "source-port" | "destination-port", words: string): string | undefined => {
    const { "lower-port": lower, "upper-port": upper } = match[name] ?? {};
    if (lower === undefined) return undefined;
    return `${words} ${lower}${upper !== undefined && upper !== lower ? ` to ${upper}` : ""}`;
  };
  const found = [
    match["source-prefix"] && `from ${match["source-prefix"]}`,
    match["destination-prefix"] && `to ${match["destination-prefix"]}`,
    match.interface && `received by ${match.interface}`,
    match.dscp !== undefined && `DSCP ${match.dscp}`,
    match.protocol !== undefined && (PROTOCOLS[match.protocol] ?? `protocol ${match.protocol}`),
    ports("source-port", "source port"),
    ports("destination-port", "destination port"),
  ].filter((words): words is string => Boolean(words));
  return found.length > 0 ? found : ["all packets"];
}

/** The action of a rule in words. */
export function action(rule: PolicyRule): string {
  if (rule.refuse) return rule.refuse === "blackhole" ? "drop silently" : `refuse: ${rule.refuse}`;
  if (rule.goto !== undefined) return `continue at priority ${rule.goto}`;
  return `table ${rule.table ?? "–"}${rule["ignore-default"] ? ", without its default route" : ""}`;
}

/** What a rule matches and does. */
export const RULE_COLUMNS: Column<PolicyRule>[] = [
  {
    name: "Packets",
    show: (rule) => (
      <>
        <Stack texts={conditions(rule)} />
        {rule.description && <small class="under">{rule.description}</small>}
      </>
    ),
  },
  { name: "Action", show: action },
];

/** The rules, in a table for each VRF and family. */
export function RuleTables({ rules, columns, none }: { rules: PolicyRule[]; columns: Column<PolicyRule>[]; none: string }): JSX.Element {
  const groups = new Map<string, PolicyRule[]>();
  for (const rule of rules) {
    const name = groupOf(keyOf(rule));
    groups.set(name, [...(groups.get(name) ?? []), rule]);
  }
  return (
    <>
      {[...groups].map(([name, list]) => (
        <Card title={name} wide>
          <Table caption={`Policy rules, ${name}`} columns={columns} rows={list} mark={(rule) => String(rule.priority)} none="" />
        </Card>
      ))}
      {rules.length === 0 && <p class="none">{none}: the destination alone decides.</p>}
    </>
  );
}

const COLUMNS: Column<PolicyRule>[] = [
  { name: "Priority", show: (rule) => String(rule.priority) },
  ...RULE_COLUMNS,
  {
    name: "Matched",
    right: true,
    show: (rule) => (rule.statistics?.packets === undefined ? "–" : `${count(number(rule.statistics.packets))} packets`),
  },
];

export function Policy(): JSX.Element {
  const { data, failure } = usePoll(policyRules, 2_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  return (
    <>
      <Waiting failure={failure} data={data} />
      <p class="note">
        Rules are evaluated in ascending priority, before the table of the VRF. They do not apply to packets for the router itself. <a href={link("configuration", ["policy"])}>Edit the rules</a>
      </p>
      <RuleTables rules={data} columns={COLUMNS} none="No rule is configured" />
    </>
  );
}
