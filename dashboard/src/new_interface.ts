// The interface that the form of new interfaces describes.
import { at, below, entries } from "./candidate";
import type { Members } from "./edits";
import { INTERFACES, PORT, interfaceAt, interfacesOf, isTunnel } from "./interface_list";
import { namesOf } from "./leaves";
import { isBetween } from "./numbers";
import { family } from "./prefixes";

const VRFS = "stoa-vrf:vrfs";
export const VRF = "stoa-vrf:vrf";
/** In place of the name of a VRF: a new one. */
export const NEW_VRF = "new";

export type Kind = "port" | "vlan" | "tunnel";
/** A field of a driver: its leaf, its label, and whether it is required. */
export interface DriverField {
  leaf: string;
  label: string;
  isRequired?: boolean;
  hint?: string;
  choices?: string[];
}

const DEVICE: DriverField[] = [
  { leaf: "device", label: "Device in Linux", hint: "if empty, the name of the interface" },
  { leaf: "netns", label: "Network namespace", hint: "if empty, that of Stoa" },
];

/** The drivers of ports with their frequent settings; the others are in the JSON. */
export const DRIVERS: Record<string, { label: string; fields: DriverField[] }> = {
  "af-packet": { label: "Linux device (af-packet)", fields: DEVICE },
  "af-xdp": { label: "Linux device, fast (af-xdp)", fields: DEVICE },
  auto: { label: "Linux device, driver chosen by Stoa (auto)", fields: DEVICE },
  dpdk: { label: "DPDK device", fields: [{ leaf: "device", label: "PCI address or virtual device", isRequired: true, hint: "0000:3b:00.0" }] },
  memif: {
    label: "Shared memory (memif)",
    fields: [
      { leaf: "socket", label: "Socket", isRequired: true, hint: "a name in the folder of memif sockets" },
      { leaf: "id", label: "Number of the connection" },
      { leaf: "role", label: "Role", choices: ["slave", "master"] },
    ],
  },
  tap: { label: "TAP device of Linux", fields: DEVICE },
  pcap: {
    label: "Capture files (pcap)",
    fields: [
      { leaf: "input", label: "Input file" },
      { leaf: "output", label: "Output file" },
    ],
  },
  generator: {
    label: "Packet generator",
    fields: [
      { leaf: "source", label: "Source address", isRequired: true },
      { leaf: "destination", label: "Destination address", isRequired: true },
      { leaf: "rate", label: "Packets per second", hint: "if empty, as many as possible" },
    ],
  },
  null: { label: "Sink that discards packets (null)", fields: [] },
};

/** Leaves of drivers that are numbers with at most 32 bits: JSON has them without quotes. */
const NUMBERS = new Set(["id"]);

/** The values of the form. */
export interface Wish {
  kind: Kind;
  name: string;
  description: string;
  driver: string;
  /** By leaf of the driver. */
  settings: Record<string, string>;
  parent: string;
  vid: string;
  /** The second tag of QinQ; "": none. */
  inner: string;
  isService: boolean;
  encapsulation: string;
  local: string;
  remote: string;
  mtu: string;
  vrf: string;
  newVrf: string;
  forwards: boolean;
}

export const NOTHING: Wish = {
  kind: "port",
  name: "",
  description: "",
  driver: "af-packet",
  settings: {},
  parent: "",
  vid: "",
  inner: "",
  isService: false,
  encapsulation: "ip",
  local: "",
  remote: "",
  mtu: "",
  vrf: "",
  newVrf: "",
  forwards: true,
};

/** Interfaces that can have VLANs: those of ports other than tunnels. */
export const parents = (whole: Members): string[] => namesOf(interfacesOf(whole).filter((one) => at(one, PORT) !== undefined && !isTunnel(one)));

export const vrfs = (whole: Members): string[] => namesOf(entries(at(whole, VRFS), "vrf"));

/** The name of the interface. That of a VLAN follows from its parent and number unless another is entered. */
export const nameOf = (wish: Wish): string =>
  wish.name.trim() || (wish.kind === "vlan" && wish.parent && wish.vid ? `${wish.parent}.${wish.vid.trim()}${wish.inner.trim() && `.${wish.inner.trim()}`}` : "");

/** The error in a field for an MTU; "": none. */
export const mtuComplaint = (text: string): string => (text.trim() === "" || isBetween(text, 68, 11_050) ? "" : "Enter an MTU from 68 to 11050, or nothing for the default.");

/** The error in the name of a new VRF; "": none. */
export function vrfComplaint(name: string, whole: Members): string {
  const text = name.trim();
  if (text === "") return "Enter a name for the new VRF.";
  if (text.length > 63 || /[\s/]/.test(text) || text === "default" || text === "all") return "A VRF has a name of at most 63 characters without spaces and slashes, other than default and all.";
  return vrfs(whole).includes(text) ? `There is a VRF ${text} already: choose it in the list.` : "";
}

/** The first error in the form; "": none. */
export function complaint(wish: Wish, whole: Members): string {
  if (wish.kind === "vlan") {
    if (wish.parent === "") return "Choose the port that carries the VLAN.";
    if (!isBetween(wish.vid, 1, 4_094)) return "Enter a VLAN from 1 to 4094.";
    if (wish.inner.trim() !== "" && !isBetween(wish.inner, 1, 4_094)) return "Enter an inner VLAN from 1 to 4094, or nothing.";
  }
  const name = nameOf(wish);
  if (name === "") return "Enter a name.";
  if (interfaceAt(whole, name)) return `There is an interface ${name} already.`;
  if (wish.kind === "port") {
    const fields = DRIVERS[wish.driver]?.fields ?? [];
    const missing = fields.find(({ leaf, isRequired }) => isRequired && !wish.settings[leaf]?.trim());
    if (missing) return `Enter: ${missing.label}.`;
    if (wish.driver === "pcap" && !wish.settings["input"]?.trim() && !wish.settings["output"]?.trim()) return "Enter an input file, an output file, or both.";
  }
  if (wish.kind === "tunnel") {
    const [local, remote] = [family(wish.local.trim()), family(wish.remote.trim())];
    if (!local) return "Enter the local address: an address of this router.";
    if (!remote) return "Enter the remote address: that of the other router.";
    if (local !== remote) return "Both ends of a tunnel must have addresses of one family.";
  }
  if (wish.kind !== "vlan" && mtuComplaint(wish.mtu)) return mtuComplaint(wish.mtu);
  return wish.vrf === NEW_VRF ? vrfComplaint(wish.newVrf, whole) : "";
}

function portOf(wish: Wish): Members {
  const mtu: Members = wish.mtu.trim() === "" ? {} : { mtu: Number(wish.mtu) };
  if (wish.kind === "tunnel") {
    return { ...mtu, tunnel: { encapsulation: wish.encapsulation, local: wish.local.trim(), remote: wish.remote.trim() } };
  }
  const settings: Members = {};
  for (const { leaf } of DRIVERS[wish.driver]?.fields ?? []) {
    const text = wish.settings[leaf]?.trim();
    if (text) settings[leaf] = NUMBERS.has(leaf) && /^\d+$/.test(text) ? Number(text) : text;
  }
  return { ...mtu, [wish.driver]: settings };
}

const TYPES: Record<Kind, string> = { port: "iana-if-type:ethernetCsmacd", vlan: "iana-if-type:l2vlan", tunnel: "iana-if-type:tunnel" };

/** Adds the VRF of a form to a configuration; returns its name, "" for the default one. */
export function addVrf(whole: Members, vrf: string, newVrf: string): string {
  if (vrf !== NEW_VRF) return vrf;
  const all = below(whole, VRFS);
  all["vrf"] = [...entries(all, "vrf"), { name: newVrf.trim() }];
  return newVrf.trim();
}

/** Adds the interface to a configuration. */
export function add(whole: Members, wish: Wish): void {
  const vrf = addVrf(whole, wish.vrf, wish.newVrf);
  const tag = (vid: string, isService: boolean): Members => ({ ...(isService && { tpid: "s-vlan" }), vid: Number(vid) });
  const one: Members = {
    name: nameOf(wish),
    ...(wish.description.trim() && { description: wish.description.trim() }),
    type: TYPES[wish.kind],
    ...(wish.kind === "vlan"
      ? { "stoa-interfaces:sub-interface": { parent: wish.parent, outer: tag(wish.vid, wish.isService), ...(wish.inner.trim() && { inner: tag(wish.inner, false) }) } }
      : { [PORT]: portOf(wish) }),
    ...(vrf && { [VRF]: vrf }),
    ...(wish.forwards && { "ietf-ip:ipv4": { forwarding: true }, "ietf-ip:ipv6": { forwarding: true } }),
  };
  const interfaces = below(whole, INTERFACES);
  interfaces["interface"] = [...entries(interfaces, "interface"), one];
}
