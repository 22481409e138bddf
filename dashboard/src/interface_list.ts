// The interfaces of a configuration.
import { at, entries } from "./candidate";
import type { Members } from "./edits";
import { namesOf } from "./leaves";

export const INTERFACES = "ietf-interfaces:interfaces";
export const PORT = "stoa-interfaces:port";

/** The entries of the list, to be modified in place. */
export const interfacesOf = (whole: Members): Members[] => entries(at(whole, INTERFACES), "interface");

export const interfaceAt = (whole: Members, name: string): Members | undefined => interfacesOf(whole).find((one) => one["name"] === name);

export const interfaceNames = (whole: Members): string[] => namesOf(interfacesOf(whole));

export const isTunnel = (one: Members): boolean => at(one, PORT, "tunnel") !== undefined;
