// The form that edits a node of the configuration.
import { steps, withoutModule } from "./data_path";
import { link } from "./route";

/** The link to the form of a data path; `undefined`: there is none. */
export function formLink(path: string): string | undefined {
  const nodes = steps(path).map(({ name, keys }) => ({ name: withoutModule(name), keys: new Map(keys) }));
  const key = (list: string, name: string): string => nodes.find((node) => node.name === list)?.keys.get(name) ?? "";
  const has = (name: string): boolean => nodes.some((node) => node.name === name);
  const to = (tab: string, ...keys: string[]): string => link("configuration", [tab, ...(keys.every((one) => one !== "") ? keys : [])]);
  if (nodes[0]?.name === "interfaces" && nodes[1]?.name === "interface") {
    const name = key("interface", "name");
    if (has("bfd")) return to("bfd", name, key("session", "dest-addr"));
    if (has("vrrp")) return to("vrrp", name, has("ipv6") ? "6" : "4", key("vrrp-instance", "vrid"));
    return to("interfaces", name);
  }
  if (nodes[0]?.name !== "routing") return undefined;
  if (has("policy")) return to("policy", key("rule", "vrf"), key("rule", "address-family"), key("rule", "priority"));
  return has("static-routes") ? to("routes") : undefined;
}
