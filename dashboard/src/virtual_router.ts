// The virtual router that its form edits: ietf-vrrp (RFC 8347).
import { at, below, copy, entries } from "./candidate";
import { quoted } from "./data_path";
import type { Members } from "./edits";
import type { FieldNode } from "./field_faults";
import { INTERFACES, interfaceAt, interfacesOf, isTunnel } from "./interface_list";
import { Review, dropEmpty, namesOf, numberOf, putChanged, putLeaf, textOf } from "./leaves";
import { isBetween, isScaledBetween, scaled, unscaled } from "./numbers";
import { canonical, canonicalPrefix, family, prefixComplaint } from "./prefixes";

const VRRP = "ietf-vrrp:vrrp";
const INSTANCE = "vrrp-instance";
/** Most addresses of a virtual router, by family. */
const ADDRESSES = { "4": 16, "6": 2 };
/** Decimal places of seconds in hundredths. */
const CENTI = 2;

export type Family = "4" | "6";

/** A tracked interface or network. While it is down, the priority is less by the decrement; "": the default. */
interface Tracked {
  name: string;
  decrement: string;
}

/** The values of the form. */
export interface RouterWish {
  interface: string;
  family: Family;
  vrid: string;
  /** The version of VRRP. */
  version: "2" | "3";
  addresses: string[];
  priority: string;
  preempt: boolean;
  /** Seconds. */
  hold: string;
  accept: boolean;
  /** Seconds between advertisements. */
  interval: string;
  log: boolean;
  interfaces: Tracked[];
  networks: Tracked[];
}

/** The fields of the form; rows of lists have a number. */
export type RouterField = keyof RouterWish | `${"addresses" | "interfaces" | "networks"} ${number}`;

export interface RouterKey {
  interface: string;
  family: Family;
  vrid: number;
}

/** The key that a form describes. */
export const wishKey = (wish: RouterWish): RouterKey => ({ interface: wish.interface, family: wish.family, vrid: Number(wish.vrid) });

/** A virtual router of a configuration. */
export interface RouterEntry {
  key: RouterKey;
  router: Members;
}

const familyName = (family: Family): string => `ietf-ip:ipv${family}`;
const listNames = (family: Family): [string, string, string] => [`virtual-ipv${family}-addresses`, `virtual-ipv${family}-address`, `ipv${family}-address`];

/** Interfaces that can have virtual routers: all but tunnels. */
export const links = (whole: Members): string[] => namesOf(interfacesOf(whole).filter((one) => !isTunnel(one)));

/** The virtual routers of a configuration. */
export const routersOf = (whole: Members): RouterEntry[] =>
  interfacesOf(whole).flatMap((one) =>
    (["4", "6"] as const).flatMap((family) =>
      entries(at(one, familyName(family), VRRP), INSTANCE).map((router) => ({ key: { interface: textOf(one, "name"), family, vrid: Number(router["vrid"]) }, router })),
    ),
  );

const isSame = (one: RouterKey, other: RouterKey): boolean => one.interface === other.interface && one.family === other.family && one.vrid === other.vrid;

export const routerAt = (whole: Members, key: RouterKey): RouterEntry | undefined => routersOf(whole).find((one) => isSame(one.key, key));

/** The virtual addresses of an entry. */
export function addressesOf({ key, router }: RouterEntry): string[] {
  const [container, list, leaf] = listNames(key.family);
  return entries(at(router, container), list).map((one) => textOf(one, leaf));
}

const trackedOf = (router: Members | undefined, container: string, list: string, key: string): Tracked[] =>
  entries(at(router, "track", container), list).map((one) => ({ name: textOf(one, key), decrement: textOf(one, "priority-decrement") }));

function intervalOf(router: Members | undefined): string {
  const centi = router?.["advertise-interval-centi-sec"];
  return centi === undefined ? textOf(router, "advertise-interval-sec") : unscaled(Number(centi), CENTI);
}

/** The form of a virtual router; without one, that of a new one. */
export function wishOf(entry?: RouterEntry): RouterWish {
  const router = entry?.router;
  const preempt = at(router, "preempt");
  return {
    interface: entry?.key.interface ?? "",
    family: entry?.key.family ?? "4",
    vrid: entry ? String(entry.key.vrid) : "",
    version: textOf(router, "version").endsWith("v2") ? "2" : "3",
    addresses: entry ? addressesOf(entry) : [""],
    priority: textOf(router, "priority"),
    preempt: preempt?.["enabled"] !== false,
    hold: textOf(preempt, "hold-time"),
    accept: router?.["accept-mode"] === true,
    interval: intervalOf(router),
    log: router?.["log-state-change"] === true,
    interfaces: trackedOf(router, "interfaces", "interface", "interface"),
    networks: trackedOf(router, "networks", "network", "prefix"),
  };
}

/** The version in use: IPv6 has version 3 only. */
export const versionOf = (wish: RouterWish): "2" | "3" => (wish.family === "6" ? "3" : wish.version);

function reviewAddresses(wish: RouterWish, found: Review<RouterField>): void {
  const given = wish.addresses.map(canonical);
  const used = given.filter((text) => text !== "");
  found.require(used.join(""), "Enter the address that hosts use as their gateway.");
  given.forEach((text, index) => {
    found.checkText(`addresses ${index}`, text, family(text) === Number(wish.family), `Enter an IPv${wish.family} address without a prefix length.`);
    found.checkText(`addresses ${index}`, text, given.indexOf(text) === index, "This address is already in the list.");
  });
  if (used.length > ADDRESSES[wish.family]) found.check("addresses", `A virtual router has at most ${ADDRESSES[wish.family]} IPv${wish.family} addresses.`);
  const isLocal = (text: string): boolean => /^fe[89ab]/i.test(text);
  if (wish.family === "6" && used.length > 0 && !used.some(isLocal)) found.check("addresses", "Add a link-local address (of fe80::/10), which hosts use as their gateway.");
}

function reviewTracked(wish: RouterWish, found: Review<RouterField>): void {
  wish.networks.forEach(({ name }, index) => found.check(`networks ${index}`, prefixComplaint(name, wish.family === "4" ? 4 : 6)));
  for (const field of ["interfaces", "networks"] as const) {
    const names = wish[field].map((row) => canonicalPrefix(row.name));
    wish[field].forEach(({ name, decrement }, index) => {
      found.checkText(`${field} ${index}`, name, names.indexOf(canonicalPrefix(name)) === index, "This is already in the list.");
      found.checkText(`${field} ${index}`, decrement, isBetween(decrement, 1, 254), "Enter a decrement from 1 to 254, or nothing for the default of 10.");
    });
  }
}

/** What is wrong in the form of the virtual router `before`; `undefined`: of a new one. */
export function review(wish: RouterWish, whole: Members, before?: RouterKey): Review<RouterField> {
  const found = new Review<RouterField>();
  found.require(wish.interface, "Choose the interface that the routers share.");
  found.require(wish.vrid, "Enter the VRID, the same on all routers.");
  found.checkText("vrid", wish.vrid, isBetween(wish.vrid, 1, 255), "Enter a VRID from 1 to 255.");
  const other = routerAt(whole, wishKey(wish));
  if (other && !(before && isSame(other.key, before))) found.check("vrid", `There is a virtual router ${wish.vrid} for IPv${wish.family} on ${wish.interface} already.`);
  reviewAddresses(wish, found);
  found.checkText("priority", wish.priority, isBetween(wish.priority, 1, 254), "Enter a priority from 1 to 254, or nothing for the default of 100.");
  found.checkText("hold", wish.hold, isBetween(wish.hold, 0, 65_535), "Enter seconds from 0 to 65535, or nothing for the default of 0.");
  if (versionOf(wish) === "2") found.checkText("interval", wish.interval, isBetween(wish.interval, 1, 254), "Enter seconds from 1 to 254, or nothing for the default of 1.");
  else found.checkText("interval", wish.interval, isScaledBetween(wish.interval, CENTI, 1, 4_095), "Enter seconds from 0.01 to 40.95, or nothing for the default of 1.");
  reviewTracked(wish, found);
  return found;
}

/** Sets the entries of a list in its container; without entries, deletes the container. */
function putList(above: Members, container: string, list: string, given: Members[]): void {
  if (given.length === 0) delete above[container];
  else below(above, container)[list] = given;
}

function putTracked(router: Members, wish: RouterWish): void {
  const track = below(router, "track");
  const list = (rows: Tracked[], key: string, name: (text: string) => string): Members[] =>
    rows
      .filter((row) => row.name.trim() !== "")
      .map((row) => ({ [key]: name(row.name), ...(row.decrement.trim() !== "" && { "priority-decrement": Number(row.decrement) }) }));
  putList(track, "interfaces", "interface", list(wish.interfaces, "interface", (text) => text.trim()));
  putList(track, "networks", "network", list(wish.networks, "prefix", canonicalPrefix));
  dropEmpty(router, "track");
}

function putTimes(router: Members, wish: RouterWish, before: RouterWish): void {
  const version = versionOf(wish);
  putLeaf(router, "version", `ietf-vrrp:vrrp-v${version}`);
  putLeaf(router, "advertise-interval-sec", version === "2" ? numberOf(wish.interval) : undefined);
  putLeaf(router, "advertise-interval-centi-sec", version === "3" ? scaled(wish.interval, CENTI) : undefined);
  if (version === "3") putChanged(router, "accept-mode", wish.accept, before.accept, false);
  else delete router["accept-mode"];
  const preempt = below(router, "preempt");
  putChanged(preempt, "enabled", wish.preempt, before.preempt, true);
  putLeaf(preempt, "hold-time", numberOf(wish.hold));
  dropEmpty(router, "preempt");
}

export function remove(whole: Members, key: RouterKey): void {
  const vrrp = at(interfaceAt(whole, key.interface), familyName(key.family), VRRP);
  if (vrrp) vrrp[INSTANCE] = entries(vrrp, INSTANCE).filter((one) => Number(one["vrid"]) !== key.vrid);
}

/** Adds the virtual router to a configuration, or changes the virtual router `before`. */
export function put(whole: Members, wish: RouterWish, before?: RouterKey): void {
  const one = interfaceAt(whole, wish.interface);
  if (!one) return;
  const old = before && routerAt(whole, before);
  const router: Members = old ? copy(old.router) : {};
  router["vrid"] = Number(wish.vrid);
  const was = wishOf(old);
  putTimes(router, wish, was);
  putLeaf(router, "priority", numberOf(wish.priority));
  putChanged(router, "log-state-change", wish.log, was.log, false);
  putTracked(router, wish);
  const [container, list, leaf] = listNames(wish.family);
  const given = wish.addresses.filter((text) => text.trim() !== "");
  if (old) delete router[listNames(old.key.family)[0]];
  putList(router, container, list, given.map((text) => ({ [leaf]: canonical(text) })));
  if (before) remove(whole, before);
  const vrrp = below(one, familyName(wish.family), VRRP);
  vrrp[INSTANCE] = [...entries(vrrp, INSTANCE), router];
}

/** The data path of a virtual router. */
export const routerPath = (key: RouterKey): string => `/${INTERFACES}/interface[name=${quoted(key.interface)}]/${familyName(key.family)}/${VRRP}/${INSTANCE}[vrid='${key.vrid}']`;

/** The nodes of the form. */
export function routerNodes(wish: RouterWish): FieldNode[] {
  const base = `/${INTERFACES}/interface/${familyName(wish.family)}/${VRRP}/${INSTANCE}`;
  const [container, list, leaf] = listNames(wish.family);
  const rows = (path: string, key: string, field: "addresses" | "interfaces" | "networks", keys: string[]): FieldNode[] =>
    keys.flatMap((value, index): FieldNode[] => (value === "" ? [] : [[`${path}[${key}=${quoted(value)}]`, `${field} ${index}`]]));
  return [
    // The rules for addresses that the model does not have are checked at the virtual router.
    [base, "addresses"],
    [`${base}/vrid`, "vrid"],
    [`${base}/version`, "version"],
    [`${base}/priority`, "priority"],
    [`${base}/preempt`, "preempt"],
    [`${base}/preempt/hold-time`, "hold"],
    [`${base}/accept-mode`, "accept"],
    [`${base}/advertise-interval-sec`, "interval"],
    [`${base}/advertise-interval-centi-sec`, "interval"],
    [`${base}/log-state-change`, "log"],
    [`${base}/track/interfaces/interface`, "interfaces"],
    ...rows(`${base}/track/interfaces/interface`, "interface", "interfaces", wish.interfaces.map((row) => row.name)),
    [`${base}/track/networks/network`, "networks"],
    ...rows(`${base}/track/networks/network`, "prefix", "networks", wish.networks.map((row) => canonicalPrefix(row.name))),
    [`${base}/${container}`, "addresses"],
    [`${base}/${container}/${list}`, "addresses"],
    ...rows(`${base}/${container}/${list}`, leaf, "addresses", wish.addresses.map(canonical)),
  ];
}
