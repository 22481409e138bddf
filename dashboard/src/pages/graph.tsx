// The packet graph with packets per second and cycles per packet of each node.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, packetRate, percent } from "../figures";
import { BOX, type Stop, draw, stops } from "../graph_layout";
import { Card, type Column, Table, Waiting } from "../parts";
import { usePoll } from "../poll";
import { Meter } from "../rates";
import { nodes } from "../yang";

/** Minimum scale of the picture. */
const SMALLEST = 0.7;
/** Below this width the graph runs from top to bottom. */
const NARROW = "(max-width: 700px)";

/** The current load of a node. */
interface Now {
  packets: number;
  /** Cycles per packet in the last second; in total when no packet passed. */
  cost: number | undefined;
  /** Share of the cycles of all nodes, 0 to 1. */
  share: number;
  /** Packets per call. */
  together: number | undefined;
}

function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const follow = (): void => setNarrow(query.matches);
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, []);
  return isNarrow;
}

function figures(list: Stop[], rates: Map<string, number>): Map<string, Now> {
  const rate = (stop: Stop, name: string): number => rates.get(`${stop.name} ${name}`) ?? 0;
  const all = list.reduce((sum, stop) => sum + rate(stop, "cycles"), 0);
  return new Map(
    list.map((stop) => {
      const packets = rate(stop, "packets");
      const cycles = rate(stop, "cycles");
      const cost = packets > 0 ? cycles / packets : stop.packets > 0 ? stop.cycles / stop.packets : undefined;
      const calls = rate(stop, "calls");
      return [stop.name, { packets, cost, share: all > 0 ? cycles / all : 0, together: calls > 0 ? packets / calls : undefined }];
    }),
  );
}

const costOf = (now: Now | undefined): string => (now?.cost === undefined ? "–" : `${now.cost < 100 ? now.cost.toFixed(1) : count(now.cost)} cyc/pkt`);

function Picture(props: { list: Stop[]; now: Map<string, Now>; chosen: string; choose: (name: string) => void }): JSX.Element {
  const isNarrow = useNarrow();
  const shape = props.list.map((stop) => `${stop.name}>${stop.next.join()}`).join(";");
  const drawn = useMemo(() => draw(props.list, isNarrow), [shape, isNarrow]);
  const flows = (name: string): boolean => (props.now.get(name)?.packets ?? 0) > 0;
  return (
    <div class="scroll graph" tabIndex={0} role="region" aria-label="The packet graph; the table below has the same values">
      <svg width={drawn.width} height={drawn.height} viewBox={`0 0 ${drawn.width} ${drawn.height}`} class="picture" style={{ minWidth: `${Math.round(drawn.width * SMALLEST)}px` }}>
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path d="M0 0 8 4 0 8z" fill="context-stroke" />
          </marker>
        </defs>
        {drawn.lines.map((line) => {
          const isLive = flows(line.from) && flows(line.to);
          const isNear = props.chosen === line.from || props.chosen === line.to;
          return <path key={`${line.from}>${line.to}`} d={line.path} class={`edge ${isLive ? "live" : ""} ${isNear ? "near" : ""}`} marker-end="url(#tip)" />;
        })}
        {props.list.map((stop) => {
          const box = drawn.boxes.get(stop.name);
          const now = props.now.get(stop.name);
          if (!box) return null;
          const isLive = flows(stop.name);
          return (
            <g
              key={stop.name}
              class={`node ${isLive ? "live" : ""} ${props.chosen === stop.name ? "chosen" : ""}`}
              transform={`translate(${box.x - BOX.width / 2} ${box.y - BOX.height / 2})`}
              onClick={() => props.choose(stop.name)}
            >
              <title>{stop.description}</title>
              <rect width={BOX.width} height={BOX.height} rx="6" />
              <rect class="heat" x="1" y={BOX.height - 5} width={(BOX.width - 2) * (now?.share ?? 0)} height="4" />
              <text x="10" y="20" class="name">
                {stop.name}
              </text>
              <text x="10" y="40">
                {isLive ? `${packetRate(now?.packets ?? 0)} · ${costOf(now)}` : "no packets"}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

export function Graph(): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const [chosen, setChosen] = useState("");
  const meter = useRef(new Meter());
  const { data, failure, at } = usePoll(nodes, 1_000, []);
  if (!data) return <Waiting failure={failure} data={data} />;
  const all = stops(data);
  const counters = new Map(
    all.flatMap((stop) => [
      [`${stop.name} packets`, stop.packets] as const,
      [`${stop.name} cycles`, stop.cycles] as const,
      [`${stop.name} calls`, stop.calls] as const,
    ]),
  );
  const rates = at > 0 ? meter.current.take(counters, at) : meter.current.current;
  const list = all.filter((stop) => isWhole || stop.calls > 0);
  const now = figures(list, rates);
  const known = list.find((stop) => stop.name === chosen);
  const columns: Column<Stop>[] = [
    { name: "Node", show: (stop) => <span class="mono">{stop.name}</span> },
    { name: "Packets", right: true, show: (stop) => packetRate(now.get(stop.name)?.packets ?? 0) },
    { name: "Cost", right: true, show: (stop) => costOf(now.get(stop.name)) },
    { name: "Share of cycles", right: true, show: (stop) => percent(now.get(stop.name)?.share ?? 0) },
    { name: "Vector size", right: true, extra: true, show: (stop) => (now.get(stop.name)?.together === undefined ? "–" : `${now.get(stop.name)?.together?.toFixed(1)} pkt`) },
    { name: "Total", right: true, extra: true, show: (stop) => `${count(stop.packets)} packets` },
    { name: "Description", extra: true, show: (stop) => stop.description },
  ];
  return (
    <>
      <Waiting failure={failure} data={data} />
      <Card
        title={`${list.length} nodes`}
        note="sum of all workers; the bar of a node is its share of all cycles, animated lines carry packets"
        wide
        tools={
          <label class="check">
            <input type="checkbox" checked={isWhole} onChange={(event) => setWhole(event.currentTarget.checked)} /> idle nodes, too
          </label>
        }
      >
        <Picture list={list} now={now} chosen={chosen} choose={setChosen} />
        {known && (
          <p class="chosen" aria-live="polite">
            <b class="mono">{known.name}</b> {known.description}. {count(known.packets)} packets in {count(known.calls)} calls since the start.
          </p>
        )}
      </Card>
      <Card title="As a table" wide>
        <Table caption="Nodes" columns={columns} rows={list} mark={(stop) => stop.name} none="No packets were received." />
      </Card>
    </>
  );
}
