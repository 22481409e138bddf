// Layout of the packet graph: positions of nodes and paths of edges.
import { graphlib, layout } from "@dagrejs/dagre";
import { number } from "./figures";
import type { Node } from "./yang";

/** A node, as the sum of all workers. */
export interface Stop {
  name: string;
  description: string;
  calls: number;
  packets: number;
  cycles: number;
  next: string[];
}

export const BOX = { width: 176, height: 56 };

/** All workers together, in the order of the router. Nodes that are only led to are there, too, without figures. */
export function stops(nodes: Node[]): Stop[] {
  const found = new Map<string, Stop>();
  const named = (name: string): Stop => {
    const stop = found.get(name) ?? { name, description: "", calls: 0, packets: 0, cycles: 0, next: [] };
    found.set(name, stop);
    return stop;
  };
  for (const node of nodes) {
    const stop = named(node.name);
    stop.description = node.description ?? "";
    stop.calls += number(node.calls);
    stop.packets += number(node.packets);
    stop.cycles += number(node.cycles);
    stop.next = [...new Set([...stop.next, ...(node.next ?? [])])];
  }
  for (const stop of [...found.values()]) stop.next.forEach(named);
  return [...found.values()];
}

export interface Drawn {
  width: number;
  height: number;
  boxes: Map<string, { x: number; y: number }>;
  lines: { from: string; to: string; path: string }[];
}

/** Lays the graph out, from left to right or, on a narrow screen, from top to bottom. */
export function draw(list: Stop[], isNarrow: boolean): Drawn {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: isNarrow ? "TB" : "LR", nodesep: 14, ranksep: isNarrow ? 34 : 56, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const names = new Set(list.map((stop) => stop.name));
  for (const stop of list) graph.setNode(stop.name, { ...BOX });
  for (const stop of list) {
    for (const to of stop.next) if (names.has(to)) graph.setEdge(stop.name, to);
  }
  layout(graph);
  const size = graph.graph();
  const boxes = new Map(graph.nodes().map((name) => [name, { x: graph.node(name).x, y: graph.node(name).y }]));
  const lines = graph.edges().map((edge) => ({ from: edge.v, to: edge.w, path: curve(graph.edge(edge).points) }));
  return { width: size.width ?? 0, height: size.height ?? 0, boxes, lines };
}

/** A smooth line through points. */
function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  const place = (at: { x: number; y: number }): string => `${at.x.toFixed(1)} ${at.y.toFixed(1)}`;
  let path = `M${place(first)}`;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    const end = next ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : point;
    path += ` Q${place(point)} ${place(end)}`;
  });
  return path;
}
