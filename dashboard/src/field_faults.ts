// Errors of the router at the fields of a form: each belongs to the field that edits the named node.
import { Cell } from "./cell";
import { type Step, steps, withoutModule } from "./data_path";
import type { Fault } from "./server";

/** A data path, and the field that edits the node and those below it. */
export type FieldNode = [path: string, field: string];

export interface FieldFaults {
  /** The messages by field. */
  at: Map<string, string>;
  /** Errors of other nodes. */
  others: Fault[];
}

/** The errors of the last commit, while the candidate is the one that was refused. */
export const commitFaults = new Cell<Fault[]>([]);

/**
 * How well the node is an ancestor of the place, or the place: the number of its steps, then of its equal keys. -1: it
 * is neither. A place may have no keys, where the error is in the key itself.
 */
function closeness(node: Step[], place: Step[]): number {
  let equal = 0;
  for (const [index, step] of node.entries()) {
    const other = place[index];
    if (!other || withoutModule(other.name) !== withoutModule(step.name)) return -1;
    for (const [key, value] of step.keys) {
      const found = other.keys.find(([name]) => name === key);
      if (found && found[1] !== value) return -1;
      if (found) equal += 1;
    }
  }
  return node.length * 100 + equal;
}

/** Whether an error is about the node at a data path, or about one below it. */
export const isAt = (fault: Fault, path: string): boolean => closeness(steps(path), steps(fault.path)) >= 0;

/** The errors by field. The closest node decides; of equally close ones, the first. */
export function faultsByField(faults: Fault[], nodes: FieldNode[]): FieldFaults {
  const found: FieldFaults = { at: new Map(), others: [] };
  const known = nodes.map(([path, field]) => ({ steps: steps(path), field }));
  for (const fault of faults) {
    const place = steps(fault.path);
    let [best, field] = [-1, ""];
    for (const node of known) {
      const close = closeness(node.steps, place);
      if (close > best) [best, field] = [close, node.field];
    }
    if (best < 0) found.others.push(fault);
    else found.at.set(field, [found.at.get(field), fault.message].filter(Boolean).join(" "));
  }
  return found;
}
