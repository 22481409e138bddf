// Data paths, as errors of the router have them: /module:name[key='value']/name.

/** A step of a data path: a name with its predicates. */
export interface Step {
  name: string;
  keys: [string, string][];
}

/** A name without its module. */
export const withoutModule = (name: string): string => name.split(":").pop() ?? name;

/** The steps of a data path. */
export function steps(path: string): Step[] {
  const found: Step[] = [];
  const step = /\/([^/[]+)((?:\[[^=\]]+=(?:'[^']*'|"[^"]*")\])*)/g;
  for (const [, name = "", predicates = ""] of path.matchAll(step)) {
    const keys: [string, string][] = [];
    for (const [, key = "", value = ""] of predicates.matchAll(/\[([^=\]]+)=('[^']*'|"[^"]*")\]/g)) {
      keys.push([withoutModule(key.trim()), value.slice(1, -1)]);
    }
    found.push({ name, keys });
  }
  return found;
}

/** A value in a predicate of a data path. */
export const quoted = (value: string): string => (value.includes("'") ? `"${value}"` : `'${value}'`);
