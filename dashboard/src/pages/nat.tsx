// Address translation: policies, external addresses, mappings, and subscribers.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { bytes, count, counted, duration, number, percent, roughDuration } from "../figures";
import { Bar, Card, type Column, Empty, Field, Figure, Stack, State, Table, Waiting, typed } from "../parts";
import { PROTOCOLS } from "../policy_rule";
import { usePoll } from "../poll";
import { prefix } from "../prefixes";
import { link } from "../route";
import {
  type Instance,
  type Mapping,
  type Nat,
  type PolicyRow,
  ROWS,
  type StaticMapping,
  type Subscriber,
  type Translations,
  dropsOf,
  externalOf,
  findTranslations,
  host,
  kindOf,
  nat,
  policiesOf,
  pools,
  portRanges,
  portsAt,
  portSets,
  senders,
  settingsOf,
  statelessOf,
  staticEnd,
  subscribersOf,
} from "../translation";

/** Ranges of ports of a subscriber that are named. */
const NAMED = 3;

const statistic = ({ policy }: PolicyRow, leaf: string, one: string): string => counted(number(policy["stoa-nat:statistics"]?.[leaf]), one);

/** The name of a policy: instance and number, as in `stoa show nat`. */
export const policyName = ({ instance, policy }: PolicyRow): string => `${instance.id}/${policy.id}`;

const POLICY_COLUMNS: Column<PolicyRow>[] = [
  {
    name: "Policy",
    width: "8rem",
    show: (it) => (
      <span class="stack">
        <b class="rule">{policyName(it)}</b>
        <small>
          {kindOf(it.instance)}
          {it.instance.name ? `, ${it.instance.name}` : ""}
        </small>
      </span>
    ),
  },
  {
    name: "Sources",
    show: (it) => (
      <span class="stack">
        <Stack texts={subscribersOf(it)} isMono={subscribersOf(it)[0] !== "all sources"} />
        {it.instance.enable === false && <State mood="idle">not enabled</State>}
      </span>
    ),
  },
  {
    name: "External addresses",
    show: (it) => {
      const name = it.policy["external-realm"]?.["external-interface"];
      return (
        <span class="stack">
          <Stack texts={externalOf(it)} isMono={/^\d/.test(externalOf(it)[0] ?? "")} />
          {name && (
            <small>
              at <a href={link("interfaces", [name])}>{name}</a>
            </small>
          )}
        </span>
      );
    },
  },
  { name: "Settings", extra: true, show: (it) => <small class="stack">{settingsOf(it).map((words) => <span>{words}</span>)}</small> },
  {
    name: "In use",
    right: true,
    width: "8.2rem",
    show: (it) => (
      <span class="stack">
        {statistic(it, "active-flows", "flow")}
        <small>{statistic(it, "active-mappings", "mapping")}</small>
      </span>
    ),
  },
  {
    name: "Port sets",
    right: true,
    width: "9rem",
    show: (it) => {
      const sets = portSets(it.policy);
      if (!sets) return <span class="note">–</span>;
      const used = sets.used + sets.held;
      return (
        <span class="stack">
          <Bar share={sets.all > 0 ? used / sets.all : 0} words={`${count(used)} of ${count(sets.all)}`} label={`Port sets of policy ${policyName(it)}`} isBelow />
          <small>
            {statistic(it, "active-subscribers", "subscriber")}
          </small>
        </span>
      );
    },
  },
  {
    name: "Dropped",
    right: true,
    width: "8.6rem",
    show: (it) => {
      const drops = dropsOf(it.policy);
      if (drops.length === 0) return <span class="note">nothing</span>;
      return (
        <span class="stack">
          {drops.map(([words, packets]) => (
            <>
              <State mood="warn">{count(packets)}</State>
              <small>{words}</small>
            </>
          ))}
        </span>
      );
    },
  },
];

type External = NonNullable<Translations["external-address"]>[number];

/** Ports in use: mappings, or flows where policies have no mappings (EDM). */
export const portsInUse = (it: External): number => number(it["active-mappings"]) || number(it["active-flows"]);

function Addresses({ all, found }: { all: Nat; found: Translations }): JSX.Element | null {
  const list = found["external-address"] ?? [];
  if (list.length === 0) return null;
  const vrfs = new Set(list.map((it) => it.vrf ?? "default"));
  const columns: Column<External>[] = [
    { name: "Address", show: (it) => <a class="mono" href={link("flows", [], { prefix: it.address })}>{it.address}</a> },
    ...(vrfs.size > 1 ? [{ name: "VRF", show: (it: External) => it.vrf ?? "default" }] : []),
    { name: "Flows", right: true, show: (it) => count(number(it["active-flows"])) },
    {
      name: "Ports in use",
      right: true,
      show: (it) => {
        const [used, ports] = [portsInUse(it), portsAt(all, it.address)];
        if (ports === undefined) return count(used);
        return <Bar share={used / ports} words={`${count(used)} of ${count(ports)}`} label={`Ports of ${it.address}`} isBelow />;
      },
    },
  ];
  const words = "ports in use by all protocols; for addresses of pools, of those that each protocol has";
  return (
    <Card title="External addresses" note={`${count(number(found["used-addresses"]))} in use; ${words}`}>
      <Table caption="External addresses" columns={columns} rows={list} mark={(it) => `${it.vrf} ${it.address}`} none="" isShort />
    </Card>
  );
}

const protocolName = (protocol: number | undefined): string => (protocol === undefined ? "all" : (PROTOCOLS[protocol] ?? String(protocol)));
const ofVrf = (vrf: string | undefined): string => (vrf === undefined || vrf === "default" ? "" : ` (${vrf})`);

const STATIC_COLUMNS: Column<StaticMapping>[] = [
  {
    name: "External",
    show: (it) => (
      <span class="stack">
        <span class="mono">{`${staticEnd(it.external, it["external-ports"])}${ofVrf(it["external-vrf"])}`}</span>
        <small>
          {it.protocol === undefined ? "all protocols" : protocolName(it.protocol)}, mapping {it.instance}/{it.index}
        </small>
      </span>
    ),
  },
  {
    name: "Internal",
    show: (it) =>
      it.backend ? (
        <span class="stack">
          {it.backend.map((one) => (
            <span>
              <span class="mono">{staticEnd(one.address, one.port ? String(one.port) : undefined)}</span>{" "}
              <small>
                {counted(number(one["active-flows"]), "flow")}, weight {one.weight ?? 1}
              </small>
            </span>
          ))}
        </span>
      ) : (
        <span class="mono">{`${staticEnd(it.internal, it["internal-ports"])}${ofVrf(it["internal-vrf"])}`}</span>
      ),
  },
  { name: "Flows", right: true, show: (it) => count(number(it["active-flows"])) },
];

function Leases({ mapping }: { mapping: Mapping }): JSX.Element {
  const leases = mapping.lease ?? [];
  if (leases.length === 0) return <span class="note">–</span>;
  return (
    <span class="stack">
      {leases.map((lease) => (
        <span>
          <State mood="good">{lease.kind === "nat-pmp" ? "NAT-PMP" : `PCP ${lease.kind}`}</State>{" "}
          <small>
            {duration(lease.remaining ?? 0)} left, {senders(lease)} may send
          </small>
        </span>
      ))}
    </span>
  );
}

const MAPPING_COLUMNS: Column<Mapping>[] = [
  { name: "Protocol", width: "5.6rem", show: (it) => protocolName(it.protocol) },
  { name: "External", show: (it) => <span class="mono">{`${it["external-address"]}:${it["external-port"]}${ofVrf(it["external-vrf"])}`}</span> },
  {
    name: "Internal",
    show: (it) => (
      <a class="mono" href={link("flows", [], { prefix: it["internal-address"], port: String(it["internal-port"]) })}>
        {`${it["internal-address"].includes(":") ? `[${it["internal-address"]}]` : it["internal-address"]}:${it["internal-port"]}${ofVrf(it["internal-vrf"])}`}
      </a>
    ),
  },
  { name: "Policy", extra: true, width: "4.6rem", show: (it) => `${it.instance}/${it.policy}` },
  { name: "Lease", show: (it) => <Leases mapping={it} /> },
  { name: "Flows", right: true, width: "4.6rem", show: (it) => count(number(it["active-flows"])) },
  { name: "Age", right: true, width: "5.6rem", show: (it) => roughDuration(it.age ?? 0) },
];

const portsOf = (it: Subscriber, protocol: string): string => {
  const ports = it.ports?.find((one) => one.protocol === protocol);
  return ports && ports.used > 0 ? count(ports.used) : "–";
};

const SUBSCRIBER_COLUMNS: Column<Subscriber>[] = [
  { name: "Subscriber", show: (it) => <a class="mono" href={link("flows", [], { prefix: it.prefix })}>{`${host(it.prefix)}${ofVrf(it.vrf)}`}</a> },
  { name: "Policy", extra: true, width: "4.6rem", show: (it) => `${it.instance}/${it.policy}` },
  { name: "Of what it may have", right: true, width: "10.5rem", show: (it) => <Bar share={(it.fullness ?? 0) / 100} words={`${it.fullness ?? 0} %`} label={`Ports of ${it.prefix}`} /> },
  { name: "TCP", right: true, width: "4.4rem", show: (it) => portsOf(it, "tcp") },
  { name: "UDP", right: true, width: "4.4rem", show: (it) => portsOf(it, "udp") },
  { name: "ICMP", right: true, width: "4.4rem", show: (it) => portsOf(it, "icmp") },
  { name: "Sets", right: true, width: "4.6rem", show: (it) => `${it["port-set"]?.length ?? 0} of ${it["port-set-limit"] ?? "–"}` },
  {
    name: "Ports",
    show: (it) => {
      const ranges = portRanges(it);
      return <Stack texts={ranges.length > NAMED ? [...ranges.slice(0, NAMED), `and ${ranges.length - NAMED} more`] : ranges} isMono />;
    },
  },
];

type Stateless = { instance: Instance; pairs: string[] };

const STATELESS_COLUMNS: Column<Stateless>[] = [
  { name: "Instance", show: ({ instance }) => `${instance.id}${instance.name ? `, ${instance.name}` : ""}` },
  { name: "Kind", show: ({ instance }) => (instance.enable === false ? <State mood="idle">{kindOf(instance)}, not enabled</State> : kindOf(instance)) },
  { name: "Translates", show: ({ pairs }) => <Stack texts={pairs} isMono /> },
  ...(["sent", "rcvd"] as const).map((way): Column<Stateless> => ({
    name: way === "sent" ? "Out" : "In",
    right: true,
    show: ({ instance }) => {
      const it = instance.statistics?.["traffic-statistics"];
      return `${count(number(it?.[`${way}-packets`]))} packets, ${bytes(number(it?.[`${way}-bytes`]))}`;
    },
  })),
];

const share = (used: unknown, limit: unknown): number => (number(limit) > 0 ? number(used) / number(limit) : 0);

function Summary({ all, found }: { all: Nat; found: Translations }): JSX.Element {
  const dropped = policiesOf(all).reduce((sum, { policy }) => sum + dropsOf(policy).reduce((part, [, packets]) => part + packets, 0), 0);
  const ofPools = pools(all);
  const limited = (name: string, used: "active-flows" | "active-mappings" | "active-leases", limit: "flow-limit" | "mapping-limit" | "lease-limit"): JSX.Element => {
    const part = share(found[used], found[limit]);
    return <Figure name={name} value={count(number(found[used]))} below={`of ${count(number(found[limit]))}: ${percent(part)}`} {...(part >= 0.8 && { mood: "warn" as const })} />;
  };
  return (
    <dl class="figures">
      {limited("Translated flows", "active-flows", "flow-limit")}
      {limited("Dynamic mappings", "active-mappings", "mapping-limit")}
      {found["active-leases"] !== undefined && limited("Leases of hosts", "active-leases", "lease-limit")}
      {ofPools && <Figure name="Pool addresses in use" value={count(ofPools.used)} below={`of ${count(ofPools.all)}: ${percent(share(ofPools.used, ofPools.all))}`} />}
      {!ofPools && <Figure name="External addresses" value={count(number(found["used-addresses"]))} below="in use" />}
      <Figure name="Not translated" value={count(dropped)} below="packets dropped" {...(dropped > 0 && { mood: "warn" as const })} />
    </dl>
  );
}

const NONE = (
  <Empty title="Nothing is translated.">
    <p>This gives packets of a network that the interface wan sends the address of wan:</p>
    <pre>{`stoa set nat instances instance 1 policy 10 external-realm external-interface wan
stoa set nat instances instance 1 policy 10 subscriber-match 1 subnet 10.0.0.0/24
stoa commit confirmed 5`}</pre>
    <p>
      The guide explains NAT44 (nat44.md), carrier-grade NAT (cgnat.md), PCP (pcp.md), NAT64 (nat64.md), SIIT (siit.md) and NPTv6 (nptv6.md).{" "}
      <a href={link("configuration", ["json"])}>Edit the configuration</a>
    </p>
  </Empty>
);

function Tables({ all, found, isLeased, isFiltered }: { all: Nat; found: Translations; isLeased: boolean; isFiltered: boolean }): JSX.Element {
  const statics = found["static-mapping"] ?? [];
  const subscribers = found.subscriber ?? [];
  const more = (all: string | undefined, shown: number): string => (number(all) > shown ? `the first ${count(shown)} of ${count(number(all))}` : count(number(all)));
  return (
    <>
      <div class="cards spaced">
        <Addresses all={all} found={found} />
        {statics.length > 0 && (
          <Card title="Static mappings" note={more(found["matching-static-mappings"], statics.length)}>
            <Table caption="Static mappings" columns={STATIC_COLUMNS} rows={statics} mark={(it) => `${it.instance} ${it.index}`} none="" isShort />
          </Card>
        )}
      </div>
      {subscribers.length > 0 && (
        <Card title="Subscribers" note={`${more(found["matching-subscribers"], subscribers.length)}, the fullest first`} wide>
          <Table caption="Subscribers" columns={SUBSCRIBER_COLUMNS} rows={subscribers} mark={(it) => `${it.vrf} ${it.prefix} ${it.instance} ${it.policy}`} none="" isShort />
        </Card>
      )}
      {found["matching-mappings"] !== undefined && found["matching-subscribers"] === undefined && <p class="none">There are too many port sets to list all subscribers: enter a prefix.</p>}
      <Card title={isLeased ? "Mappings that hosts hold" : "Dynamic mappings"} note={`${more(found["matching-mappings"], found.mapping?.length ?? 0)}, the oldest first`} wide>
        <Table
          caption="Mappings"
          columns={MAPPING_COLUMNS}
          rows={found.mapping ?? []}
          mark={(it) => `${it.protocol} ${it["external-vrf"]} ${it["external-address"]} ${it["external-port"]} ${it["internal-vrf"]} ${it["internal-address"]} ${it["internal-port"]}`}
          none={isFiltered ? "No mapping meets the conditions." : "No dynamic mapping: policies with the mapping type EDM have flows alone."}
        />
        {number(found["matching-mappings"]) > ROWS && <p class="none">The page shows at most {ROWS}: search for others.</p>}
      </Card>
    </>
  );
}

export function Translation(): JSX.Element {
  const [text, setText] = useState("");
  const [isLeased, setLeased] = useState(false);
  const asked = text.trim();
  const read = prefix(asked);
  const isValid = asked === "" || read?.family === 4;
  const { data: all, failure } = usePoll(nat, 2_000, [], true);
  const search = isValid ? asked : "";
  const { data: found, failure: failed } = usePoll(() => findTranslations(search, isLeased), 2_000, [search, isLeased], true);
  if (!all || !found) return <Waiting failure={failure ?? failed} data={undefined} />;
  if ((all.instances?.instance ?? []).length === 0) {
    return (
      <>
        <Waiting failure={failure} data={all} />
        {NONE}
      </>
    );
  }
  const [policies, stateless] = [policiesOf(all), statelessOf(all)];
  return (
    <>
      <Waiting failure={failure ?? failed} data={all} />
      {policies.length > 0 && (
        <>
          <Summary all={all} found={found} />
          <Card title="Policies" note="The first policy that matches translates." wide>
            <Table caption="Policies" columns={POLICY_COLUMNS} rows={policies} mark={policyName} none="" />
          </Card>
          <div class="filter">
            <Field label="Only this address or prefix, internal or external" {...(!isValid && { hint: "Enter an IPv4 address or prefix, like 10.0.0.7." })}>
              <input type="search" name="prefix" value={text} onInput={(event) => setText(typed(event))} placeholder="10.0.0.7 or 203.0.113.0/24" aria-invalid={!isValid} spellcheck={false} autocapitalize="none" />
            </Field>
            {found["active-leases"] !== undefined && (
              <label class="check">
                <input type="checkbox" name="leased" checked={isLeased} onChange={(event) => setLeased(event.currentTarget.checked)} /> only mappings that hosts hold by PCP or NAT-PMP
              </label>
            )}
          </div>
          <Tables all={all} found={found} isLeased={isLeased} isFiltered={search !== "" || isLeased} />
        </>
      )}
      {stateless.length > 0 && (
        <Card title="Translation without state" note="SIIT and NPTv6" wide>
          <Table caption="Translation without state" columns={STATELESS_COLUMNS} rows={stateless} mark={({ instance }) => String(instance.id)} none="" />
        </Card>
      )}
    </>
  );
}
