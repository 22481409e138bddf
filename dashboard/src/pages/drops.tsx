// Drop reasons and their counters.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { count, number, packetRate } from "../figures";
import { Card, type Column, Table, Waiting } from "../parts";
import { usePoll } from "../poll";
import { Meter } from "../rates";
import { type Drop, drops } from "../yang";

export function Drops(): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const meter = useRef(new Meter());
  const { data, failure, at } = usePoll(drops, 1_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const rates = at > 0 ? meter.current.take(new Map(data.map((drop) => [drop.reason, number(drop.packets)])), at) : meter.current.current;
  const rate = (drop: Drop): number => rates.get(drop.reason) ?? 0;
  const rows = data.filter((drop) => isWhole || number(drop.packets) > 0);
  rows.sort((a, b) => rate(b) - rate(a) || number(b.packets) - number(a.packets) || a.reason.localeCompare(b.reason));
  const columns: Column<Drop>[] = [
    { name: "Reason", show: (drop) => <span class="mono">{drop.reason}</span> },
    { name: "Now", right: true, show: (drop) => (rates.has(drop.reason) ? packetRate(rate(drop)) : "–") },
    { name: "Total", right: true, show: (drop) => `${count(number(drop.packets))} packets` },
    { name: "Description", show: (drop) => drop.description ?? "" },
  ];
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Card
        title={`${rows.length} reasons`}
        wide
        tools={
          <label class="check">
            <input type="checkbox" checked={isWhole} onChange={(event) => setWhole(event.currentTarget.checked)} /> those that never happened, too
          </label>
        }
      >
        <Table caption="Drop reasons" columns={columns} rows={rows} mark={(drop) => drop.reason} none="No packets were dropped." />
      </Card>
    </>
  );
}
