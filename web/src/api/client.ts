// Requests to the server that sent these pages, and recovery while it is unreachable.
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { components } from "./schema";

/** Types of the HTTP API, generated from web/openapi.json. */
export type Schemas = components["schemas"];

/** Position of an error in a text: offset and length in bytes of UTF-8; line and column from 1. */
export interface TextRange {
  byte: number;
  length: number;
  line: number;
  column: number;
}

/** An error response of the server: HTTP status, message and, for a syntax error, its position. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly at: TextRange | null = null,
  ) {
    super(message);
  }
}

/** The server did not respond at all. */
export class UnreachableError extends Error {}

type Params = Record<string, string | number | boolean | null | undefined>;

/** Returns a URL with its query string; parameters without a value are omitted. */
export function path(url: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${url}?${text}` : url;
}

// Reachability of the server. While it is unreachable, /healthz is requested at increasing intervals. Once the server responds, `generation`
// grows, and all visible data is requested again.
const listeners = new Set<() => void>();
let state = { unreachable: false, generation: 0, unauthorised: "" };
let wait = 0;

function set(patch: Partial<typeof state>) {
  state = { ...state, ...patch };
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns the reachability of the server, and renders again when it changes. */
export const useServer = () => useSyncExternalStore(subscribe, () => state);

/** Repeats the requests of all visible data. */
export function refresh() {
  set({ generation: state.generation + 1, unauthorised: "" });
}

function waitForServer() {
  if (state.unreachable) return;
  set({ unreachable: true });
  wait = 250;
  const probe = () => {
    fetch("/healthz", { cache: "no-store" })
      .then((r) =>
        r.ok ? set({ unreachable: false, generation: state.generation + 1 }) : Promise.reject(new Error(r.statusText)),
      )
      .catch(() => {
        wait = Math.min(wait * 2, 8000);
        window.setTimeout(probe, wait);
      });
  };
  window.setTimeout(probe, wait);
}

const PAUSE_MAX = 5000;

async function pause(ms: number, signal?: AbortSignal) {
  await new Promise((resolve) => window.setTimeout(resolve, ms));
  signal?.throwIfAborted();
}

/** Sends a request. If the server is busy, the request is repeated up to three times, after the time that the response states. */
export async function send(url: string, init: RequestInit = {}): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    let response: Response;
    try {
      response = await fetch(url, { credentials: "same-origin", ...init });
    } catch (e) {
      if (init.signal?.aborted) throw e;
      waitForServer();
      throw new UnreachableError("the server does not answer");
    }
    if (response.ok) return response;
    const text = await response.text();
    let body: { error?: string; retry_after_ms?: number | null; at?: TextRange } = {};
    try {
      body = JSON.parse(text);
    } catch {
      body = { error: text.trim() };
    }
    const busy = response.status === 429 || (response.status === 503 && body.retry_after_ms);
    if (busy && attempt < 3) {
      await pause(Math.min(body.retry_after_ms ?? 500, PAUSE_MAX), init.signal ?? undefined);
      continue;
    }
    const message = body.error || `${response.status} ${response.statusText}`;
    if (response.status === 401) set({ unauthorised: message });
    throw new HttpError(response.status, message, body.at ?? null);
  }
}

/** Sends a GET request and decodes the JSON of its response. */
export async function get<T>(url: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const response = await send(path(url, params), { signal: signal ?? null });
  return (await response.json()) as T;
}

/** Sends a POST request with a JSON body and decodes the JSON of its response. */
export async function post<T>(url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
  return (await response.json()) as T;
}

/** State of a repeated request: latest data or error, whether it is in flight, and a function that sends it again. */
export interface RequestState<T> {
  data: T | null;
  error: Error | null;
  busy: boolean;
  reload: () => void;
}

/** Sends a GET request, and repeats it when its URL changes, every `intervalMs` milliseconds, and when the server responds after an outage.
 * The previous data stays until the next response. No request is sent while `url` is null. */
export function useGet<T>(url: string | null, params: Params = {}, intervalMs = 0): RequestState<T> {
  const { generation } = useServer();
  const request = url === null ? null : path(url, params);
  const [reloads, setReloads] = useState(0);
  const [result, setResult] = useState<{ data: T | null; error: Error | null; busy: boolean }>({
    data: null,
    error: null,
    busy: true,
  });
  const latest = useRef(0);
  const pending = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: reloads and generations repeat the same request
  useEffect(() => {
    if (request === null) return;
    const number = ++latest.current;
    const stop = new AbortController();
    pending.current = true;
    setResult((r) => ({ ...r, busy: true }));
    get<T>(request, {}, stop.signal)
      .then((data) => {
        if (number !== latest.current) return;
        pending.current = false;
        setResult({ data, error: null, busy: false });
      })
      .catch((error: Error) => {
        if (stop.signal.aborted || number !== latest.current) return;
        pending.current = false;
        // While the server is unreachable, the previous data stays visible.
        setResult((r) => ({ data: error instanceof UnreachableError ? r.data : null, error, busy: false }));
      });
    return () => stop.abort();
  }, [request, generation, reloads]);
  const reload = useCallback(() => setReloads((n) => n + 1), []);
  useEffect(() => {
    if (!intervalMs || request === null) return;
    const timer = window.setInterval(() => {
      // A response that takes longer than the interval is not requested twice.
      if (document.visibilityState === "visible" && !state.unreachable && !pending.current) reload();
    }, intervalMs);
    return () => window.clearInterval(timer);
  }, [intervalMs, request, reload]);
  return { ...result, reload };
}
