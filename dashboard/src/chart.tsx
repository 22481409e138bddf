// A chart of the last two minutes, second by second.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useCell } from "./cell";
import { scaled } from "./figures";
import type { Series } from "./rates";
import { colour, isDark } from "./theme";

/** Time span in seconds. */
export const SPAN_S = 120;
const HEIGHT = 180;

export interface Line {
  name: string;
  /** A custom property of the style sheet. */
  colour: string;
  /** Dashes distinguish lines without colour. */
  dash?: number[];
}

export const RECEIVED: Line = { name: "received", colour: "--line-1" };
export const SENT: Line = { name: "sent", colour: "--line-2", dash: [6, 3] };
export const DROPPED: Line = { name: "dropped", colour: "--line-3", dash: [2, 3] };

function options(lines: Line[], width: number): uPlot.Options {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false },
    scales: {
      x: { range: (_, __, max) => [max - SPAN_S, max] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 28, space: 70, values: (_, at) => at.map((time) => new Date(time * 1000).toLocaleTimeString(undefined, { hour12: false })) },
      { ...axis, size: 62, values: (_, at) => at.map((value) => scaled(value, "")) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        stroke: colour(line.colour),
        width: 2,
        points: { show: false },
        ...(line.dash ? { dash: line.dash } : {}),
      })),
    ],
  };
}

/** Shows `series`; `turn` changes when it has new values. `unit` formats a value. */
export function Chart(props: { title: string; lines: Line[]; series: Series; turn: unknown; unit: (value: number) => string }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const dark = useCell(isDark);
  const data = (): uPlot.AlignedData => [props.series.times, ...props.series.values] as uPlot.AlignedData;
  useEffect(() => {
    const room = place.current;
    if (!room) return undefined;
    const made = new uPlot(options(props.lines, Math.max(200, room.clientWidth)), data(), room);
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: Math.max(200, room.clientWidth), height: HEIGHT }));
    watch.observe(room);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [props.series, dark]);
  useEffect(() => chart.current?.setData(data()), [props.turn]);
  const last = (at: number): number | null => {
    const line = props.series.values[at] ?? [];
    return line[line.length - 1] ?? null;
  };
  const now = props.lines.map((line, at) => {
    const value = last(at);
    return { line, words: value === null ? "–" : props.unit(value) };
  });
  return (
    <figure class="chart">
      <figcaption>
        <span>{props.title}</span>
        {now.map(({ line, words }) => (
          <span class="key">
            <svg width="22" height="8" aria-hidden="true">
              <line x1="0" y1="4" x2="22" y2="4" stroke={`var(${line.colour})`} stroke-width="2" stroke-dasharray={line.dash?.join(" ")} />
            </svg>
            {line.name} <b>{words}</b>
          </span>
        ))}
      </figcaption>
      <div ref={place} role="img" aria-label={`${props.title}, the last two minutes: ${now.map((one) => `${one.line.name} ${one.words}`).join(", ")}`} />
    </figure>
  );
}
