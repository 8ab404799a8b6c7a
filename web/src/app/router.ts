// Routing: the fragment of the URL has the page and its parameters, so that an address is one state of a page.
import { useSyncExternalStore } from "react";

/** A page and the parameters of its state. */
export interface Route {
  page: string;
  params: URLSearchParams;
}

/** Parses a fragment such as `#/runs?user=ada`; an empty one is the page `home`. */
export function parse(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const page = cut < 0 ? text : text.slice(0, cut);
  return { page: page || "home", params: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
}

/** Returns the address of a page; parameters without a value are omitted. */
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

function currentRoute(): Route {
  const { hash } = window.location;
  if (hash !== current.hash) current = { hash, route: parse(hash) };
  return current.route;
}

function notify() {
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  if (listeners.size === 0) window.addEventListener("hashchange", notify);
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) window.removeEventListener("hashchange", notify);
  };
}

/** Returns the current route, and renders again when it changes. */
export function useRoute(): Route {
  return useSyncExternalStore(subscribe, currentRoute);
}

/** Opens a page as a new entry of the browser's history. */
export function go(page: string, params: Record<string, string | number | null | undefined> = {}) {
  window.location.hash = href(page, params);
}

/** Changes parameters of the current page. With `replace`, the browser's history gets no new entry, as for typing or a slider. */
export function change(patch: Record<string, string | number | null | undefined>, replace = false) {
  const { page, params } = currentRoute();
  const all: Record<string, string | number | null | undefined> = Object.fromEntries(params);
  const next = href(page, { ...all, ...patch });
  if (replace) {
    window.history.replaceState(null, "", next);
    notify();
  } else if (window.location.hash !== next) {
    window.location.hash = next;
  }
}
