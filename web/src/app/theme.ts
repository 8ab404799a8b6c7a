// Light or dark: as the system has it, unless somebody chose.
import { useSyncExternalStore } from "react";

export type Choice = "system" | "light" | "dark";
const KEY = "esker.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function stored(): Choice {
  const text = window.localStorage.getItem(KEY);
  return text === "light" || text === "dark" ? text : "system";
}

let choice = stored();

function apply() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

export function isDark(): boolean {
  return choice === "dark" || (choice === "system" && dark.matches);
}

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

export const useChoice = () => useSyncExternalStore(subscribe, () => choice);
export const useDark = () => useSyncExternalStore(subscribe, isDark);

dark.addEventListener("change", apply);
apply();
