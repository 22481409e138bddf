// Requests to the router: how they are sent, and what their failures mean in words.
import { Cell } from "./cell";

/** One error of RFC 8040, section 7. */
export interface Fault {
  path: string;
  message: string;
  tag: string;
}

/** A request that did not do what it should; the message is for people. */
export class Failure extends Error {
  constructor(
    /** Of HTTP; 0: no answer came. */
    readonly status: number,
    readonly faults: Fault[],
  ) {
    super(faults.map((fault) => fault.message).join(" "));
  }
}

export interface User {
  user: string;
  admin: boolean;
}

const FAREWELL = "stoa-farewell";

/** What the page before this one had to say. */
function told(): string {
  if (typeof sessionStorage === "undefined") return "";
  const words = sessionStorage.getItem(FAREWELL) ?? "";
  sessionStorage.removeItem(FAREWELL);
  return words;
}

/** Begins the page anew, so that nothing of what one user saw is left in it for the next. */
function leave(words: string): void {
  sessionStorage.setItem(FAREWELL, words);
  location.reload();
}

/** Who is logged in; `undefined`: not known yet, `null`: nobody. */
export const user = new Cell<User | null | undefined>(undefined);
/** Why the last session ended, for the page to log in. */
export const farewell = new Cell(told());
/** Since when the router does not answer; 0: it does. */
export const lostSince = new Cell(0);

const JSON_TYPE = "application/yang-data+json";
/** An answer is waited for this long. */
const PATIENCE_MS = 20_000;

const sentence = (words: string): string => {
  const text = words.trim();
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
};

/** The errors that an answer tells, whatever client said them. */
export function faultsOf(status: number, text: string, retryAfter: string | null): Fault[] {
  let told: unknown;
  try {
    told = JSON.parse(text);
  } catch {
    told = undefined;
  }
  const object = (told ?? {}) as Record<string, unknown>;
  const errors = object["ietf-restconf:errors"] as { error?: Record<string, string>[] } | undefined;
  const list = (errors?.error ?? []).map((error) => ({
    path: error["error-path"] ?? "",
    message: sentence(error["error-message"] ?? error["error-tag"] ?? "refused"),
    tag: error["error-tag"] ?? "",
  }));
  if (list.length > 0) return list;
  if (typeof object["error"] === "string") {
    return [{ path: "", message: sentence(object["error"]), tag: "" }];
  }
  const wait = retryAfter ? ` Try again in ${retryAfter} s.` : "";
  return [{ path: "", message: `The router answered with status ${status}.${wait}`, tag: "" }];
}

/** Requests are held back until then: the router said that there were too many. */
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
    const message = "The router does not answer. It is asked again and again.";
    throw new Failure(0, [{ path: "", message, tag: "" }]);
  }
  lostSince.set(0);
  if (answer.ok || answer.status === 304) return answer;
  const retryAfter = answer.headers.get("retry-after");
  if (answer.status === 429) heldUntil = Date.now() + 1000 * Math.min(Number(retryAfter) || 1, 30);
  const faults = faultsOf(answer.status, await answer.text(), retryAfter);
  if (answer.status === 401 && user.value) {
    leave("The session has ended: log in again. What was not committed is still in the candidate.");
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

/** Asks the router; gives what it answers, `undefined` when that is nothing. */
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

/** A stream of bytes, for captures. It lasts until it ends or the signal says so. */
export async function open(url: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const answer = await send(url, { headers: { "x-stoa-request": "1" }, signal });
  if (!answer.body) throw new Failure(0, [{ path: "", message: "Nothing came.", tag: "" }]);
  return answer.body;
}

/** Calls an operation; gives its output. */
export async function call<T>(operation: string, input?: Record<string, unknown>): Promise<T> {
  const module = operation.split(":")[0];
  const body = input && { [`${module}:input`]: input };
  const answer = await ask("POST", `/restconf/operations/${operation}`, body);
  const object = (answer ?? {}) as Record<string, T>;
  return object[`${module}:output`] ?? ({} as T);
}

/** Finds out who is logged in. */
export async function greet(): Promise<void> {
  try {
    user.set((await ask("GET", "/whoami")) as User);
  } catch (error) {
    if ((error as Failure).status === 401) user.set(null);
    else throw error;
  }
}

export async function logIn(name: string, password: string): Promise<void> {
  const known = (await ask("POST", "/login", { user: name, password })) as User;
  farewell.set("");
  user.set(known);
}

/** Ends the session. It fails when the router does not say that it is ended: then it lasts, and so does the page. */
export async function logOut(): Promise<void> {
  try {
    await ask("POST", "/logout");
  } catch (error) {
    // It was over already.
    if ((error as Failure).status !== 401) throw error;
  }
  // What was looked at is nobody else's business, either.
  location.hash = "";
  leave("");
}
