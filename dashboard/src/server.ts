// Requests to the router, and the messages of their errors.
import { Cell } from "./cell";

/** One error of RFC 8040, section 7. */
export interface Fault {
  path: string;
  message: string;
  tag: string;
}

/** A failed request; the message is for the user. */
export class Failure extends Error {
  constructor(
    /** The HTTP status; 0: no response. */
    readonly status: number,
    readonly faults: Fault[],
  ) {
    super(faults.map((fault) => fault.message).join(" "));
  }
}

export interface User {
  user: string;
  admin: boolean;
  /** The name of the router: its host name. */
  router?: string;
}

const LOGOUT_REASON = "stoa-logout-reason";

/** The message that the previous page left. */
function takeLogoutReason(): string {
  if (typeof sessionStorage === "undefined") return "";
  const words = sessionStorage.getItem(LOGOUT_REASON) ?? "";
  sessionStorage.removeItem(LOGOUT_REASON);
  return words;
}

/** Reloads the page, so that no data of one user is left for the next. */
function leave(words: string): void {
  sessionStorage.setItem(LOGOUT_REASON, words);
  location.reload();
}

/** The user; `undefined`: not known yet, `null`: not logged in. */
export const user = new Cell<User | null | undefined>(undefined);
/** Why the last session ended, for the login page. */
export const logoutReason = new Cell(takeLogoutReason());
/** Time since which the router does not answer; 0: it answers. */
export const lostSince = new Cell(0);

const JSON_TYPE = "application/yang-data+json";
/** Timeout of a request. */
const PATIENCE_MS = 20_000;

const asSentence = (words: string): string => {
  const text = words.trim();
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
};

/** The errors in a response of any endpoint. */
export function faultsOf(status: number, text: string, retryAfter: string | null): Fault[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = undefined;
  }
  const object = (parsed ?? {}) as Record<string, unknown>;
  const errors = object["ietf-restconf:errors"] as { error?: Record<string, string>[] } | undefined;
  const list = (errors?.error ?? []).map((error) => ({
    path: error["error-path"] ?? "",
    message: asSentence(error["error-message"] ?? error["error-tag"] ?? "refused"),
    tag: error["error-tag"] ?? "",
  }));
  if (list.length > 0) return list;
  if (typeof object["error"] === "string") {
    return [{ path: "", message: asSentence(object["error"]), tag: "" }];
  }
  const wait = retryAfter ? ` Try again in ${retryAfter} s.` : "";
  return [{ path: "", message: `The router answered with status ${status}.${wait}`, tag: "" }];
}

/** Requests wait until then, after the router reported too many requests. */
let heldUntil = 0;

async function send(url: string, init: RequestInit): Promise<Response> {
  const wait = heldUntil - Date.now();
  if (wait > 0) await new Promise((done) => setTimeout(done, wait));
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted && (error as Error).name === "AbortError") throw error;
    if (lostSince.value === 0) lostSince.set(Date.now());
    const message = "The router does not answer. The page tries again.";
    throw new Failure(0, [{ path: "", message, tag: "" }]);
  }
  lostSince.set(0);
  if (answer.ok || answer.status === 304) return answer;
  const retryAfter = answer.headers.get("retry-after");
  if (answer.status === 429) heldUntil = Date.now() + 1000 * Math.min(Number(retryAfter) || 1, 30);
  const faults = faultsOf(answer.status, await answer.text(), retryAfter);
  if (answer.status === 401 && user.value) {
    leave("The session has ended: log in again. Uncommitted changes are still in the candidate.");
  }
  throw new Failure(answer.status, faults);
}

function signalOf(signal: AbortSignal | undefined): AbortSignal {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  if (!signal) return patience;
  const both = new AbortController();
  for (const one of [signal, patience]) {
    one.addEventListener("abort", () => both.abort(one.reason), { once: true });
    if (one.aborted) both.abort(one.reason);
  }
  return both.signal;
}

/** Sends a request; returns the response, `undefined` when it is empty. */
export async function ask(
  method: string,
  url: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<unknown> {
  const plain = !url.startsWith("/restconf");
  const init: RequestInit = {
    method,
    headers: {
      accept: plain ? "application/json" : JSON_TYPE,
      "x-stoa-request": "1",
      ...(body === undefined ? {} : { "content-type": plain ? "application/json" : JSON_TYPE }),
    },
    signal: signalOf(signal),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
  const text = await (await send(url, init)).text();
  return text === "" ? undefined : JSON.parse(text);
}

/** A byte stream, for captures, until it ends or is aborted. */
export async function open(url: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const answer = await send(url, { headers: { "x-stoa-request": "1" }, signal });
  if (!answer.body) throw new Failure(0, [{ path: "", message: "The response is empty.", tag: "" }]);
  return answer.body;
}

/** Calls an operation; returns its output. */
export async function call<T>(operation: string, input?: Record<string, unknown>): Promise<T> {
  const module = operation.split(":")[0];
  const body = input && { [`${module}:input`]: input };
  const answer = await ask("POST", `/restconf/operations/${operation}`, body);
  const object = (answer ?? {}) as Record<string, T>;
  return object[`${module}:output`] ?? ({} as T);
}

/** Reads the identity of the user. */
export async function greet(): Promise<void> {
  try {
    user.set((await ask("GET", "/whoami")) as User);
  } catch (error) {
    if ((error as Failure).status === 401) user.set(null);
    else throw error;
  }
}

export async function logIn(name: string, password: string): Promise<void> {
  await ask("POST", "/login", { user: name, password });
  logoutReason.set("");
  await greet();
}

/** The name of the router. The host of the URL is that of a tunnel, perhaps. */
export const routerName = (known: User | null | undefined): string => known?.router || location.host;

/** Ends the session. Without a confirmation of the router it fails, and the session and the page stay. */
export async function logOut(): Promise<void> {
  try {
    await ask("POST", "/logout");
  } catch (error) {
    // The session had already ended.
    if ((error as Failure).status !== 401) throw error;
  }
  // The location must not be visible to the next user.
  location.hash = "";
  leave("");
}
