// Questions to the server that these pages came from, and what is done when it is not there.
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { components } from "./schema";

export type Schemas = components["schemas"];

/** Where in a text something is wrong. */
export interface Place {
  byte: number;
  length: number;
  line: number;
  column: number;
}

/** What the server said instead of an answer. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly at: Place | null = null,
  ) {
    super(message);
  }
}

/** There is no server. */
export class Gone extends Error {}

type Given = Record<string, string | number | boolean | null | undefined>;

export function path(url: string, params: Given = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${url}?${text}` : url;
}

// Whether the server is there. While it is not, it is looked for; once it is back all that is shown is asked again.
const listeners = new Set<() => void>();
let state = { gone: false, epoch: 0, unauthorised: "" };
let wait = 0;

function set(patch: Partial<typeof state>) {
  state = { ...state, ...patch };
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useServer = () => useSyncExternalStore(subscribe, () => state);

/** Asks everything again. */
export function refresh() {
  set({ epoch: state.epoch + 1, unauthorised: "" });
}

function lost() {
  if (state.gone) return;
  set({ gone: true });
  wait = 250;
  const look = () => {
    fetch("/healthz", { cache: "no-store" })
      .then((r) => (r.ok ? set({ gone: false, epoch: state.epoch + 1 }) : Promise.reject(new Error(r.statusText))))
      .catch(() => {
        wait = Math.min(wait * 2, 8000);
        window.setTimeout(look, wait);
      });
  };
  window.setTimeout(look, wait);
}

const PAUSE_MAX = 5000;

async function pause(ms: number, signal?: AbortSignal) {
  await new Promise((resolve) => window.setTimeout(resolve, ms));
  signal?.throwIfAborted();
}

/** Sends a request; a server that is busy is asked again when it says. */
export async function send(url: string, init: RequestInit = {}): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    let response: Response;
    try {
      response = await fetch(url, { credentials: "same-origin", ...init });
    } catch (e) {
      if (init.signal?.aborted) throw e;
      lost();
      throw new Gone("the server does not answer");
    }
    if (response.ok) return response;
    const text = await response.text();
    let said: { error?: string; retry_after_ms?: number | null; at?: Place } = {};
    try {
      said = JSON.parse(text);
    } catch {
      said = { error: text.trim() };
    }
    const busy = response.status === 429 || (response.status === 503 && said.retry_after_ms);
    if (busy && attempt < 3) {
      await pause(Math.min(said.retry_after_ms ?? 500, PAUSE_MAX), init.signal ?? undefined);
      continue;
    }
    const message = said.error || `${response.status} ${response.statusText}`;
    if (response.status === 401) set({ unauthorised: message });
    throw new Refused(response.status, message, said.at ?? null);
  }
}

export async function get<T>(url: string, params: Given = {}, signal?: AbortSignal): Promise<T> {
  const response = await send(path(url, params), { signal: signal ?? null });
  return (await response.json()) as T;
}

export async function post<T>(url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
  return (await response.json()) as T;
}

export interface Asked<T> {
  data: T | null;
  error: Error | null;
  busy: boolean;
  again: () => void;
}

/** The answer to a question, asked anew when the question changes, every so many milliseconds, and when the server comes back. What was
 * answered before stays until the next answer is there. */
export function useGet<T>(url: string | null, params: Given = {}, every = 0): Asked<T> {
  const { epoch } = useServer();
  const question = url === null ? null : path(url, params);
  const [turn, setTurn] = useState(0);
  const [answer, setAnswer] = useState<{ question: string | null; data: T | null; error: Error | null; busy: boolean }>({
    question: null,
    data: null,
    error: null,
    busy: true,
  });
  const latest = useRef(0);
  const under = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a turn and an epoch ask the same question again
  useEffect(() => {
    if (question === null) return;
    const number = ++latest.current;
    const stop = new AbortController();
    under.current = true;
    setAnswer((a) => ({ ...a, busy: true }));
    get<T>(question, {}, stop.signal)
      .then((data) => {
        if (number !== latest.current) return;
        under.current = false;
        setAnswer({ question, data, error: null, busy: false });
      })
      .catch((error: Error) => {
        if (stop.signal.aborted || number !== latest.current) return;
        under.current = false;
        // While the server is away, what was last seen stays under the banner.
        setAnswer((a) => ({ question, data: error instanceof Gone ? a.data : null, error, busy: false }));
      });
    return () => stop.abort();
  }, [question, epoch, turn]);
  const again = useCallback(() => setTurn((t) => t + 1), []);
  useEffect(() => {
    if (!every || question === null) return;
    const timer = window.setInterval(() => {
      // An answer that takes longer than that is waited for.
      if (document.visibilityState === "visible" && !state.gone && !under.current) again();
    }, every);
    return () => window.clearInterval(timer);
  }, [every, question, again]);
  return { data: answer.data, error: answer.error, busy: answer.busy, again };
}
