// Small charts without axes, for lists.

/** The largest value, at least 0. */
export const largest = (...lines: (number | null)[][]): number => Math.max(0, ...lines.flat().map((value) => value ?? 0));

/** The path of values from 0 to `most` in a box: a line from left to right, broken at gaps. */
export function sparkline(values: (number | null)[], most: number, width: number, height: number): string {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let isDown = false;
  const parts = values.map((value, at) => {
    if (value === null) {
      isDown = false;
      return "";
    }
    const y = height - 1 - (most > 0 ? (value / most) * (height - 2) : 0);
    const part = `${isDown ? "L" : "M"}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
    isDown = true;
    return part;
  });
  return parts.join("");
}
