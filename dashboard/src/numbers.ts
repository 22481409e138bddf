// Numbers that are typed into forms.

/** Whether a text is a whole number from `low` to `high`. */
export const isBetween = (text: string, low: number, high: number): boolean =>
  /^\d{1,10}$/.test(text.trim()) && Number(text) >= low && Number(text) <= high;

/**
 * A number with at most `digits` decimal places, in units of the last one: ("1.5", 2) is 150. `undefined`: the text is
 * no such number.
 */
export function scaled(text: string, digits: number): number | undefined {
  const read = /^(\d{1,9})(?:\.(\d+))?$/.exec(text.trim());
  const after = read?.[2] ?? "";
  if (!read || after.length > digits) return undefined;
  return Number(`${read[1] ?? ""}${after.padEnd(digits, "0")}`);
}

/** Whether a text is such a number from `low` to `high` units. */
export function isScaledBetween(text: string, digits: number, low: number, high: number): boolean {
  const value = scaled(text, digits);
  return value !== undefined && value >= low && value <= high;
}

/** The text of a number in units of the decimal place `digits`: (150, 2) is "1.5". */
export const unscaled = (value: number, digits: number): string => String(value / 10 ** digits);
