// A chart of the last hour, or of the last two minutes second by second.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Cell, useCell } from "./cell";
import { scaled } from "./figures";
import { KEPT_S, type Series } from "./rates";
import { colour, isDark } from "./theme";

/** The shorter time span in seconds. */
const SHORT_S = 120;
const SPAN_KEY = "stoa-span";
/** The time span of all charts in seconds; remembered by the browser. */
const span = new Cell(typeof localStorage !== "undefined" && localStorage.getItem(SPAN_KEY) === String(SHORT_S) ? SHORT_S : KEPT_S);
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

/** Chooses the time span of all charts. */
export const SpanChoice = (): JSX.Element => (
  <label class="span">
    <span class="unseen">Time span of the charts</span>
    <select
      value={useCell(span)}
      onChange={(event) => {
        const chosen = Number(event.currentTarget.value);
        localStorage.setItem(SPAN_KEY, String(chosen));
        span.set(chosen);
      }}
    >
      <option value={KEPT_S}>last hour</option>
      <option value={SHORT_S}>last 2 minutes</option>
    </select>
  </label>
);

const clock = (isShort: boolean): Intl.DateTimeFormatOptions => ({ hour: "2-digit", minute: "2-digit", ...(isShort && { second: "2-digit" }), hour12: false });

function options(lines: Line[], width: number, seconds: number): uPlot.Options {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false },
    scales: {
      x: { range: (_, __, max) => [max - seconds, max] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 28, space: 70, values: (_, at) => at.map((time) => new Date(time * 1000).toLocaleTimeString(undefined, clock(seconds === SHORT_S))) },
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
  const seconds = useCell(span);
  const data = (): uPlot.AlignedData => [props.series.times, ...props.series.values] as uPlot.AlignedData;
  useEffect(() => {
    const room = place.current;
    if (!room) return undefined;
    const made = new uPlot(options(props.lines, Math.max(200, room.clientWidth), seconds), data(), room);
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: Math.max(200, room.clientWidth), height: HEIGHT }));
    watch.observe(room);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [props.series, dark, seconds]);
  useEffect(() => chart.current?.setData(data()), [props.turn]);
  const now = props.lines.map((line, at) => {
    const value = props.series.last(at);
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
      <div ref={place} role="img" aria-label={`${props.title}, the last ${seconds === SHORT_S ? "two minutes" : "hour"}: ${now.map((one) => `${one.line.name} ${one.words}`).join(", ")}`} />
    </figure>
  );
}
