// Polling while the page is visible.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Failure } from "./server";

export interface Polled<T> {
  /** The last response; it is kept while the router does not answer. */
  data: T | undefined;
  /** The error of the last request. */
  failure: Failure | undefined;
  /** Time of the last response, in milliseconds of `performance.now()`. */
  at: number;
  /** Polls at once. */
  again: () => void;
}

/** Longest pause after failures. */
const LONGEST_MS = 8_000;

/** Whether the page is hidden. */
const isHidden = (): boolean => document.visibilityState === "hidden";

/**
 * Time between two requests, in times that the router took to answer: one that takes long is sent less often. A page
 * has up to two such requests. Each keeps the router busy for at most a tenth of the time: both for a fifth.
 */
const REST = 9;

/**
 * Calls `look` every `period_ms` while the page is visible; 0: once, and when `again` is called. New `keys` start
 * again. With `isLong`, requests that take long are sent less often.
 */
export function usePoll<T>(look: (signal: AbortSignal) => Promise<T>, period_ms: number, keys: unknown[], isLong = false): Polled<T> {
  const [state, setState] = useState<Omit<Polled<T>, "again">>({ data: undefined, failure: undefined, at: 0 });
  const kick = useRef<() => void>(() => undefined);
  useEffect(() => {
    const over = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let isAsking = false;
    let isRequested = false;
    const later = (delay: number): void => {
      clearTimeout(timer);
      timer = setTimeout(() => void turn(), delay);
    };
    const turn = async (): Promise<void> => {
      if (isAsking) {
        isRequested = true;
        return;
      }
      if (isHidden() || over.signal.aborted) return;
      isAsking = true;
      const begun = performance.now();
      try {
        const data = await look(over.signal);
        failures = 0;
        if (!over.signal.aborted) setState({ data, failure: undefined, at: performance.now() });
      } catch (error) {
        failures += 1;
        if (!over.signal.aborted) setState((old) => ({ ...old, failure: error as Failure }));
      }
      isAsking = false;
      if (over.signal.aborted) return;
      if (isRequested) {
        isRequested = false;
        later(0);
      } else if (failures > 0) {
        later(Math.min(1000 * 2 ** (failures - 1), LONGEST_MS));
      } else if (period_ms > 0) {
        const took_ms = performance.now() - begun;
        later(Math.max(100, period_ms - took_ms, isLong ? REST * took_ms : 0));
      }
    };
    const seen = (): void => {
      if (!isHidden() && period_ms > 0) later(0);
    };
    setState((old) => ({ ...old, failure: undefined }));
    document.addEventListener("visibilitychange", seen);
    kick.current = () => void turn();
    void turn();
    return () => {
      over.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [period_ms, ...keys]);
  return { ...state, again: () => kick.current() };
}
