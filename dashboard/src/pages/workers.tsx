// The threads that forward packets.
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { number, packetRate, percent } from "../figures";
import { Bar, Card, type Column, Stack, Table, Waiting } from "../parts";
import { usePoll } from "../poll";
import { Meter } from "../rates";
import { type Worker, workers } from "../yang";

export function Workers(): JSX.Element {
  const meter = useRef(new Meter());
  const { data, failure, at } = usePoll(workers, 1_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const counters = new Map<string, number>();
  for (const one of data) {
    for (const name of ["packets", "loops", "sleeps", "handed-out", "handed-in", "cross-node"] as const) counters.set(`${one.index} ${name}`, number(one[name]));
  }
  const rates = at > 0 ? meter.current.take(counters, at) : meter.current.current;
  const rate = (one: Worker, name: string): number | undefined => rates.get(`${one.index} ${name}`);
  const shown = (one: Worker, name: string, unit: string): string => {
    const value = rate(one, name);
    return value === undefined ? "–" : packetRate(value).replace("pkt/s", unit);
  };
  const columns: Column<Worker>[] = [
    {
      name: "Worker",
      show: (one) => (
        <span class="stack">
          {one.index}
          <small>
            {one.cpu === undefined ? "any processor" : `processor ${one.cpu}`}
            {one["numa-node"] === undefined ? "" : `, NUMA node ${one["numa-node"]}`}, {one.polling}
          </small>
        </span>
      ),
    },
    { name: "Busy", show: (one) => <Bar share={number(one.busy)} label={`Worker ${one.index}`} words={percent(number(one.busy))} /> },
    { name: "Received", right: true, show: (one) => shown(one, "packets", "pkt/s") },
    { name: "Vector size", right: true, show: (one) => `${number(one.vector).toFixed(1)} pkt` },
    { name: "Loops", right: true, show: (one) => shown(one, "loops", "/s") },
    { name: "Sleeps", right: true, show: (one) => shown(one, "sleeps", "/s") },
    { name: "Handed out", right: true, extra: true, show: (one) => shown(one, "handed-out", "pkt/s") },
    { name: "Handed in", right: true, extra: true, show: (one) => shown(one, "handed-in", "pkt/s") },
    { name: "Cross-node", right: true, extra: true, show: (one) => shown(one, "cross-node", "pkt/s") },
    { name: "Queues", extra: true, show: (one) => <Stack texts={one.queue ?? []} isMono /> },
  ];
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Card title={`${data.length} ${data.length === 1 ? "worker" : "workers"}`} note="vector size: mean number of packets per graph run; handed out and in: handoff between workers; cross-node: received from another NUMA node, with a copy" wide>
        <Table caption="Workers" columns={columns} rows={data} mark={(one) => String(one.index)} none="No workers." />
      </Card>
    </>
  );
}
