// One URL is one state: the page and all that was chosen on it stand behind the `#`.
import { useSyncExternalStore } from "react";

export interface Route {
  page: string;
  params: URLSearchParams;
}

export function parse(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const page = cut < 0 ? text : text.slice(0, cut);
  return { page: page || "home", params: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
}

/** The address of a page; what is empty is left out. */
export function href(page: string, params: Record<string, string | number | null | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `#/${page === "home" ? "" : page}${text ? `?${text}` : ""}`;
}

const listeners = new Set<() => void>();
let current = { hash: "", route: parse("") };

function now(): Route {
  const { hash } = window.location;
  if (hash !== current.hash) current = { hash, route: parse(hash) };
  return current.route;
}

function tell() {
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  if (listeners.size === 0) window.addEventListener("hashchange", tell);
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.removeEventListener("hashchange", tell);
  };
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, now);
}

export function go(page: string, params: Record<string, string | number | null | undefined> = {}) {
  window.location.hash = href(page, params);
}

/** Changes some of what was chosen. Small steps (a slider, typing) take the place of the state before. */
export function change(patch: Record<string, string | number | null | undefined>, replace = false) {
  const { page, params } = now();
  const all: Record<string, string | number | null | undefined> = Object.fromEntries(params);
  const next = href(page, { ...all, ...patch });
  if (replace) {
    window.history.replaceState(null, "", next);
    tell();
  } else if (window.location.hash !== next) {
    window.location.hash = next;
  }
}
