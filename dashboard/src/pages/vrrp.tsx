// Virtual routers: gateway addresses that several routers share.
import type { JSX } from "preact";
import { withoutModule } from "../data_path";
import { count, number } from "../figures";
import { Card, type Column, type Mood, Stack, State, Table, Waiting } from "../parts";
import { usePoll } from "../poll";
import { type VrrpRow, virtualRouters } from "../protocols";
import { link } from "../route";
import { since } from "./daemons";

/** The state of a virtual router: its YANG name, and the word of RFC 9568. */
export function vrrpState(one: VrrpRow): { mood: Mood; words: string } {
  switch (withoutModule(one.state ?? "")) {
    case "master":
      return { mood: "good", words: "active (master)" };
    case "backup":
      return { mood: "idle", words: "backup" };
    case "initialize":
      return { mood: "warn", words: "initialize: the interface is down" };
    default:
      return { mood: "warn", words: "not reported" };
  }
}

/** The virtual addresses. */
export const virtualAddresses = (one: VrrpRow): string[] => [
  ...(one["virtual-ipv4-addresses"]?.["virtual-ipv4-address"] ?? []).map((it) => it["ipv4-address"]),
  ...(one["virtual-ipv6-addresses"]?.["virtual-ipv6-address"] ?? []).map((it) => it["ipv6-address"]),
];

const counter = (one: VrrpRow, name: string): string => count(number(one.statistics?.[name]));

const COLUMNS: Column<VrrpRow>[] = [
  {
    name: "Virtual router",
    show: (one) => (
      <>
        {one.vrid}
        <small class="under">
          IPv{one.family}, {withoutModule(one.version ?? "").replace("vrrp-v", "version ") || "VRRP"}
        </small>
      </>
    ),
  },
  { name: "Interface", show: (one) => <a href={link("interfaces", [one.interface])}>{one.interface}</a> },
  {
    name: "State",
    show: (one) => {
      const { mood, words } = vrrpState(one);
      const reason = withoutModule(one["new-master-reason"] ?? "");
      return (
        <>
          <State mood={mood}>{words}</State>
          {reason && <small class="under">last takeover: {reason}</small>}
        </>
      );
    },
  },
  { name: "Addresses", show: (one) => <Stack texts={virtualAddresses(one)} isMono /> },
  { name: "Priority", right: true, show: (one) => (one["is-owner"] ? "255 (owner)" : String(one.priority ?? "–")) },
  { name: "Last advertisement of", show: (one) => <span class="mono">{one["last-adv-source"] ?? "–"}</span> },
  { name: "Started", show: (one) => since(one["up-datetime"]) },
  { name: "Takeovers", right: true, show: (one) => counter(one, "master-transitions") },
  { name: "Received", right: true, extra: true, show: (one) => counter(one, "advertisement-rcvd") },
  { name: "Sent", right: true, extra: true, show: (one) => counter(one, "advertisement-sent") },
];

export function Vrrp(): JSX.Element {
  const { data, failure } = usePoll(virtualRouters, 1_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const active = data.filter((one) => withoutModule(one.state ?? "") === "master").length;
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Card title={`${active} of ${data.length} virtual routers active here`} wide tools={<a href={link("configuration", ["vrrp"])}>Edit the virtual routers</a>}>
        <Table caption="Virtual routers" columns={COLUMNS} rows={data} mark={(one) => `${one.interface} ${one.family} ${one.vrid}`} none="No virtual router is configured." />
      </Card>
    </>
  );
}
