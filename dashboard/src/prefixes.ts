// A quick check of addresses and prefixes; the router decides.

const IP4 = /^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$/;

/** The family of an address; `undefined`: not an address. */
export function family(text: string): 4 | 6 | undefined {
  if (IP4.test(text)) return 4;
  const halves = text.split("::");
  if (!/^[0-9a-fA-F:.]+$/.test(text) || !text.includes(":") || halves.length > 2) return undefined;
  let words = 0;
  for (const [index, half] of halves.entries()) {
    if (half === "") continue;
    const parts = half.split(":");
    for (const [at, part] of parts.entries()) {
      const isLast = index === halves.length - 1 && at === parts.length - 1;
      if (isLast && IP4.test(part)) words += 2;
      else if (/^[0-9a-fA-F]{1,4}$/.test(part)) words += 1;
      else return undefined;
    }
  }
  return halves.length === 2 ? (words < 8 ? 6 : undefined) : words === 8 ? 6 : undefined;
}

/** The parts of "10.0.0.1/24"; the default length is that of a host address. */
export function prefix(text: string): { address: string; length: number; family: 4 | 6 } | undefined {
  const [address = "", length] = text.trim().split("/", 2);
  const of = family(address);
  if (!of) return undefined;
  const most = of === 4 ? 32 : 128;
  if (length === undefined) return { address, length: most, family: of };
  if (!/^\d{1,3}$/.test(length) || Number(length) > most) return undefined;
  return { address, length: Number(length), family: of };
}

/** An IPv6 address in hexadecimal words, compressed. */
const compressed = (address: string): string => new URL(`http://[${address}]/`).hostname.slice(1, -1);

/**
 * An address as the router writes it (RFC 5952); any other text stays. The router finds keys by this form: with
 * another one, a change of the text alone would add and delete the same entry.
 */
export function canonical(text: string): string {
  const address = text.trim();
  if (family(address) !== 6) return address;
  const short = compressed(address);
  const last = /^(::(?:ffff:)?)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short);
  if (!last) return short;
  const bytes = [last[2], last[3]].flatMap((word = "0") => [Number.parseInt(word, 16) >> 8, Number.parseInt(word, 16) & 255]);
  return `${last[1] ?? ""}${bytes.join(".")}`;
}

/** A prefix as the router writes it; any other text stays. */
export function canonicalPrefix(text: string): string {
  const [address = "", ...rest] = text.trim().split("/");
  return [canonical(address), ...rest].join("/");
}

/** The eight words of an IPv6 address, or the four bytes of an IPv4 address. */
function wordsOf(address: string): number[] {
  if (family(address) === 4) return address.split(".").map(Number);
  const [first = [], last] = compressed(address).split("::").map((half) => half.split(":").filter((word) => word !== "").map((word) => Number.parseInt(word, 16)));
  return last === undefined ? first : [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}

/** The prefix without host bits: "10.0.0.0/8" for "10.1.2.3/8"; `undefined`: the text is no prefix. */
export function network(text: string): string | undefined {
  const read = prefix(text);
  if (!read) return undefined;
  const size = read.family === 4 ? 8 : 16;
  const words = wordsOf(read.address).map((word, index) => {
    const bits = Math.min(size, Math.max(0, read.length - index * size));
    return word - (word % 2 ** (size - bits));
  });
  const address = read.family === 4 ? words.join(".") : canonical(words.map((word) => word.toString(16)).join(":"));
  return `${address}/${read.length}`;
}

/** The error about host bits in a destination, in the words of the router; "": there are none. */
export function hostBitsComplaint(text: string): string {
  const [read, right] = [prefix(text), network(text)];
  if (!read || right === undefined || canonicalPrefix(text) === right) return "";
  const host = `${canonical(read.address)}/${read.family === 4 ? 32 : 128}`;
  return `The destination ${text.trim()} has host bits set. Write ${right} for the network, or ${host} for this address alone.`;
}

/** The error in a field for a prefix of a family; "": none. */
export function prefixComplaint(text: string, version: 4 | 6): string {
  if (text.trim() === "") return "";
  const read = prefix(text);
  if (!read || !text.includes("/") || read.family !== version) return `Enter an IPv${version} prefix, such as ${version === 4 ? "10.0.0.0/8" : "2001:db8::/32"}.`;
  const right = network(text) ?? "";
  return canonicalPrefix(text) === right ? "" : `${text.trim()} has host bits set: enter ${right}.`;
}
