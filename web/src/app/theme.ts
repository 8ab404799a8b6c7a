// Light and dark colours: the system decides, unless the user has chosen.
import { useSyncExternalStore } from "react";

/** Colours that the user chose. */
export type Choice = "system" | "light" | "dark";
const KEY = "esker.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function storedChoice(): Choice {
  const text = window.localStorage.getItem(KEY);
  return text === "light" || text === "dark" ? text : "system";
}

let choice = storedChoice();

function apply() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

/** Returns whether the console has dark colours. */
export function isDark(): boolean {
  return choice === "dark" || (choice === "system" && dark.matches);
}

/** Stores the user's choice in this browser, and applies it. */
export function choose(next: Choice) {
  choice = next;
  if (next === "system") window.localStorage.removeItem(KEY);
  else window.localStorage.setItem(KEY, next);
  apply();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns the user's choice, and renders again when it changes. */
export const useChoice = () => useSyncExternalStore(subscribe, () => choice);
/** Returns whether colours are dark, and renders again when they change. */
export const useDark = () => useSyncExternalStore(subscribe, isDark);

dark.addEventListener("change", apply);
apply();
