// Dark, light, or as the system has it; remembered by the browser.
import { Cell } from "./cell";

export type Theme = "auto" | "light" | "dark";

const KEY = "stoa-theme";

const kept = (): Theme => {
  const held = typeof localStorage === "undefined" ? null : localStorage.getItem(KEY);
  return held === "light" || held === "dark" ? held : "auto";
};

export const theme = new Cell<Theme>(kept());
/** The theme in use, which also follows the system. */
export const isDark = new Cell(false);

export function choose(chosen: Theme): void {
  theme.set(chosen);
  localStorage.setItem(KEY, chosen);
  show();
}

function show(): void {
  const system = matchMedia("(prefers-color-scheme: dark)").matches;
  const dark = theme.value === "dark" || (theme.value === "auto" && system);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  isDark.set(dark);
}

export function begin(): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

/** A colour of the style sheet, for charts. */
export const colour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
