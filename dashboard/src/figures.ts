// Formats of numbers: with a unit and few digits.

const LARGE = ["", "k", "M", "G", "T", "P"];

/** A number with an SI prefix, one to three digits before the point: "1.23 Mpkt/s". */
export function scaled(value: number, unit: string): string {
  if (!Number.isFinite(value)) return `– ${unit}`;
  let step = 0;
  let rest = Math.abs(value);
  while (rest >= 999.5 && step < LARGE.length - 1) {
    rest /= 1000;
    step += 1;
  }
  const digits = step === 0 && Number.isInteger(rest) ? 0 : rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2;
  const sign = value < 0 ? "−" : "";
  return `${sign}${rest.toFixed(digits)} ${LARGE[step] ?? ""}${unit}`.trim();
}

/** Packets per second. */
export const packetRate = (value: number): string => scaled(value < 10 ? Math.round(value * 10) / 10 : Math.round(value), "pkt/s");

/** Bits per second. */
export const bitRate = (value: number): string => scaled(Math.round(value), "bit/s");

/** An integer with narrow spaces between thousands: "1 234 567". */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** A size: "1.5 MB". */
export const bytes = (value: number): string => scaled(value, "B");

/** A share from 0 to 1 in percent. */
export function percent(share: number): string {
  const value = share * 100;
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** A time in its two largest units: "3 d 4 h". */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3_600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return "0 s";
  const shown = parts.slice(first, first + 2).filter(([value]) => value > 0);
  return shown.map(([value, unit]) => `${value} ${unit}`).join(" ");
}

/** A time in its largest unit: "3 d". */
export const roughDuration = (seconds: number): string => duration(seconds).split(" ").slice(0, 2).join(" ");

/** A time in the user's time zone. */
export function moment(iso: string): string {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? iso : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** A time of today without its date, another one with it. */
export function shortMoment(iso: string): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  const time = date.toLocaleTimeString(undefined, { timeStyle: "medium" });
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString(undefined, { month: "short", day: "numeric" })}, ${time}`;
}

/** "1 route", "2 routes". */
export const counted = (value: number, one: string): string => `${count(value)} ${one}${value === 1 ? "" : "s"}`;

/** A counter in RFC 7951 form, which is a string for 64 bits. */
export const number = (value: unknown): number => {
  const read = typeof value === "number" ? value : Number.parseFloat(String(value ?? "0"));
  return Number.isFinite(read) ? read : 0;
};
