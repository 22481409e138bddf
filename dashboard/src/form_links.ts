// The form that edits a node of the configuration.
import { steps } from "./json_places";
import { link } from "./route";

/** The link to the form of a data path; `undefined`: there is none. */
export function formLink(path: string): string | undefined {
  const way = steps(path).map(({ name, keys }) => ({ name: name.split(":").pop() ?? name, keys: new Map(keys) }));
  const key = (list: string, name: string): string => way.find((step) => step.name === list)?.keys.get(name) ?? "";
  const has = (name: string): boolean => way.some((step) => step.name === name);
  const to = (tab: string, ...keys: string[]): string => link("configuration", [tab, ...(keys.every((one) => one !== "") ? keys : [])]);
  if (way[0]?.name === "interfaces" && way[1]?.name === "interface") {
    const name = key("interface", "name");
    if (has("bfd")) return to("bfd", name, key("session", "dest-addr"));
    if (has("vrrp")) return to("vrrp", name, has("ipv6") ? "6" : "4", key("vrrp-instance", "vrid"));
    return to("interfaces", name);
  }
  if (way[0]?.name !== "routing") return undefined;
  if (has("policy")) return to("policy", key("rule", "vrf"), key("rule", "address-family"), key("rule", "priority"));
  return has("static-routes") ? to("routes") : undefined;
}
