// Nodes that are taken out of effect, or put back, among the changes of a configuration.
import { steps, withoutModule } from "./data_path";
import type { Change } from "./yang";

/** A change as a row: of a node, or of whether it is in effect. */
export interface Row extends Omit<Change, "operation"> {
  operation: Change["operation"] | "deactivate" | "activate";
}

/** The entry of a node that is out of effect, by its words. */
const PART = "/stoa-annotations:deactivated/part";

/** A word as the console shows it: in quotes unless it is plain. */
const quoted = (word: string): string => (/^[\p{L}\p{N}\-_.:/@+,%]+$/u.test(word) ? word : `"${word.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`);

/** The words of a node, as `set` takes them. */
export const wordsOf = (path: string): string =>
  steps(path)
    .flatMap((step) => [withoutModule(step.name), ...step.keys.map(([, value]) => value)])
    .map(quoted)
    .join(" ");

/** The node of an entry of the list of parts, and whether the path is that of its lines, or of anything else in it. */
function partOf(path: string): { node: string; isLines: boolean; isWhole: boolean } | undefined {
  if (!path.startsWith(PART)) return undefined;
  const [, part, below] = steps(path);
  const node = part?.keys[0]?.[1];
  const isLines = below !== undefined && withoutModule(below.name) === "inactive-lines";
  return node === undefined ? undefined : { node, isLines, isWhole: below === undefined };
}

/** The changes with one row for each node that `deactivate` took out of effect or `activate` put back. */
export function withParts(list: Change[]): Row[] {
  const created = new Map<string, string | undefined>();
  const deleted = new Set<string>();
  for (const change of list) {
    const part = partOf(change.path);
    if (!part) continue;
    if (change.operation === "create") created.set(part.node, part.isLines ? change.new : created.get(part.node));
    if (change.operation === "delete") deleted.add(part.node);
  }
  if (created.size === 0 && deleted.size === 0) return list;
  const words = list.map((change) => wordsOf(change.path));
  const isWithin = (at: number, node: string): boolean => words[at] === node || (words[at] ?? "").startsWith(`${node} `);
  const has = (operation: Change["operation"], node: string): boolean => list.some((change, at) => change.operation === operation && isWithin(at, node));
  const down = [...created.keys()].filter((node) => has("delete", node));
  const up = [...deleted].filter((node) => has("create", node));
  return list.flatMap((change, at): Row[] => {
    const part = partOf(change.path);
    if (part && change.operation === "create" && down.includes(part.node)) {
      const kept = created.get(part.node);
      return !part.isWhole ? [] : [{ operation: "deactivate", path: part.node, ...(kept !== undefined && { new: kept }) }];
    }
    if (part && change.operation === "delete" && up.includes(part.node)) {
      return !part.isWhole ? [] : [{ operation: "activate", path: part.node }];
    }
    // The row of the part, which has the lines that are kept, shows it.
    if (change.operation === "delete" && down.some((node) => isWithin(at, node))) return [];
    return [change];
  });
}
