// Banners of all pages: no connection, an unconfirmed commit, a locked configuration, a change by another user.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useCell } from "./cell";
import { look, notice, datastoreStatus } from "./events";
import { duration } from "./figures";
import { Notice } from "./parts";
import { call, lostSince, routerName, user } from "./server";

/** The current time, updated every second while in use. */
function useSeconds(isOn: boolean): number {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setNow(performance.now()), 1_000);
    setNow(performance.now());
    return () => clearInterval(timer);
  }, [isOn]);
  return now;
}

function Lost(): JSX.Element | null {
  const since = useCell(lostSince);
  useSeconds(since > 0);
  if (since === 0) return null;
  return (
    <Notice mood="bad">
      No response from the router for {duration((Date.now() - since) / 1000)}. The page shows the last known data and reconnects by itself.
    </Notice>
  );
}

function Unconfirmed(): JSX.Element | null {
  const { until, author } = useCell(datastoreStatus);
  const now = useSeconds(until !== undefined);
  const router = routerName(useCell(user));
  const [why, setWhy] = useState("");
  if (until === undefined) return null;
  const act = async (operation: string): Promise<void> => {
    try {
      await call(operation);
      setWhy("");
    } catch (error) {
      setWhy((error as Error).message);
    }
    await look().catch(() => undefined);
  };
  return (
    <div class="confirm" role="region" aria-label="A commit is waiting for confirmation">
      <p>
        <b role="timer">{duration(Math.max(0, until - now) / 1000)}</b> left to confirm the commit of {author ?? "another user"} to {router}. Otherwise it is rolled back.
      </p>
      <span class="buttons">
        <button class="main" onClick={() => void act("stoa-datastore:confirm")}>
          Confirm
        </button>
        <button onClick={() => void act("stoa-datastore:cancel")}>Roll back</button>
      </span>
      {why && <p role="alert">{why}</p>}
    </div>
  );
}

function Locked(): JSX.Element | null {
  const { holder } = useCell(datastoreStatus);
  if (!holder) return null;
  return <Notice mood="warn">{holder}. Changes by others are refused until that session ends.</Notice>;
}

export function Banners(): JSX.Element {
  const saved = useCell(notice);
  return (
    <div class="banners">
      <Lost />
      <Unconfirmed />
      <Locked />
      {saved && (
        <Notice mood="idle" live>
          {saved}{" "}
          <button class="quiet" onClick={() => notice.set("")}>
            Dismiss
          </button>
        </Notice>
      )}
    </div>
  );
}
