// The login page: log in, or create the first user with the setup token of the router.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useCell } from "../cell";
import { Field, Notice, typed } from "../parts";
import { ask, logoutReason, logIn } from "../server";

/** Submits a form and shows its error. */
function useForm(work: () => Promise<void>): { why: string; isBusy: boolean; send: (event: Event) => void } {
  const [why, setWhy] = useState("");
  const [isBusy, setBusy] = useState(false);
  const send = (event: Event): void => {
    event.preventDefault();
    setBusy(true);
    work()
      .then(() => setWhy(""), (error: Error) => setWhy(error.message))
      .finally(() => setBusy(false));
  };
  return { why, isBusy, send };
}

function Known({ change }: { change: () => void }): JSX.Element {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const message = useCell(logoutReason);
  const { why, isBusy, send } = useForm(() => logIn(name, password));
  return (
    <form class="card" onSubmit={send}>
      <h1>Log in</h1>
      {message && !why && <Notice mood="warn" live>{message}</Notice>}
      {why && <Notice mood="bad">{why}</Notice>}
      <Field label="User">
        <input name="user" value={name} onInput={(event) => setName(typed(event))} autocomplete="username" autocapitalize="none" required autofocus />
      </Field>
      <Field label="Password">
        <input name="password" type="password" value={password} onInput={(event) => setPassword(typed(event))} autocomplete="current-password" required />
      </Field>
      <button class="main" disabled={isBusy}>
        {isBusy ? "Please wait …" : "Log in"}
      </button>
      <button type="button" class="quiet" onClick={change}>
        This router has no user yet
      </button>
    </form>
  );
}

function First({ change }: { change: () => void }): JSX.Element {
  const [token, setToken] = useState("");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const { why, isBusy, send } = useForm(async () => {
    if (password !== again) throw new Error("The passwords differ: enter the same password twice.");
    await ask("POST", "/setup", { token: token.trim(), user: name, password });
    await logIn(name, password);
  });
  return (
    <form class="card" onSubmit={send}>
      <h1>Create the first user</h1>
      <p>
        The setup token is in the file <code>setup-token</code> in the state folder of the router; its log has the path. It is valid once and creates an administrator.
      </p>
      {why && <Notice mood="bad">{why}</Notice>}
      <Field label="Setup token">
        <input name="token" value={token} onInput={(event) => setToken(typed(event))} autocomplete="off" spellcheck={false} required autofocus />
      </Field>
      <Field label="User">
        <input name="user" value={name} onInput={(event) => setName(typed(event))} autocomplete="username" autocapitalize="none" required />
      </Field>
      <Field label="Password">
        <input name="password" type="password" value={password} onInput={(event) => setPassword(typed(event))} autocomplete="new-password" required />
      </Field>
      <Field label="Repeat password">
        <input name="again" type="password" value={again} onInput={(event) => setAgain(typed(event))} autocomplete="new-password" required />
      </Field>
      <button class="main" disabled={isBusy}>
        {isBusy ? "Please wait …" : "Create user and log in"}
      </button>
      <button type="button" class="quiet" onClick={change}>
        A user exists already
      </button>
    </form>
  );
}

export function LogIn(): JSX.Element {
  const [isFirst, setFirst] = useState(false);
  return (
    <main class="alone">
      <div class="brand big">
        <svg viewBox="0 0 32 32" width="44" height="44" aria-hidden="true">
          <rect width="32" height="32" rx="7" fill="var(--accent)" />
          <path d="M6 11 16 5l10 6v2H6zM8 15h3v9H8zm6.5 0h3v9h-3zm6.5 0h3v9h-3zM6 25h20v2.5H6z" fill="var(--surface)" />
        </svg>
        <span>
          Stoa <small>{location.host}</small>
        </span>
      </div>
      {isFirst ? <First change={() => setFirst(false)} /> : <Known change={() => setFirst(true)} />}
    </main>
  );
}
