// A live capture into a file for Wireshark, which the browser keeps.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useCell } from "../cell";
import { bytes, count, duration } from "../figures";
import { Card, Faults, Field, Notice, typed } from "../parts";
import { FrameCounter } from "../pcapng";
import { usePoll } from "../poll";
import { place } from "../route";
import { Failure, call, open } from "../server";
import { interfaceCounters } from "../yang";

/** Maximum size; the capture ends there. */
const MOST_BYTES = 128 << 20;

interface Progress {
  frames: number;
  bytes: number;
  begun: number;
  isOver: boolean;
  /** The URL of the finished file. */
  file: string;
}

const DIRECTIONS: [string, string][] = [
  ["rx", "received"],
  ["tx", "sent"],
  ["drop", "dropped, with the drop reason"],
];

interface Wish {
  interface: string;
  packets: number;
  seconds: number;
  filter: string;
  direction: string[];
}

/** Reads the stream of a capture until it ends. */
async function take(wish: Wish, signal: AbortSignal, tell: (frames: number, size: number) => void): Promise<Blob> {
  const input = { ...wish, ...(wish.filter.trim() === "" ? { filter: undefined } : {}) };
  const { url } = await call<{ url: string }>("stoa-forwarder:capture", input);
  const pieces: Uint8Array[] = [];
  const counter = new FrameCounter();
  let size = 0;
  try {
    const reader = (await open(url, signal)).getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      pieces.push(next.value);
      size += next.value.length;
      counter.take(next.value);
      tell(counter.frames, size);
      if (size > MOST_BYTES) {
        await reader.cancel();
        break;
      }
    }
  } catch (error) {
    // The data received before the stop is a valid file, up to its last complete block.
    if (!signal.aborted || counter.whole === 0) throw error;
  }
  return new Blob(pieces as BlobPart[]).slice(0, counter.whole, "application/x-pcapng");
}

function Result({ progress, name, stop }: { progress: Progress; name: string; stop: () => void }): JSX.Element {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (progress.isOver) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [progress.isOver]);
  return (
    <Card title={progress.isOver ? "Captured" : "Capturing"} wide>
      <div aria-live="polite">
        <dl class="figures small">
          <div class="figure">
            <dt>Packets</dt>
            <dd>{count(progress.frames)}</dd>
          </div>
          <div class="figure">
            <dt>Size</dt>
            <dd>{bytes(progress.bytes)}</dd>
          </div>
          {!progress.isOver && (
            <div class="figure">
              <dt>Time</dt>
              <dd>{duration((now - progress.begun) / 1000)}</dd>
            </div>
          )}
        </dl>
      </div>
      <p class="buttons">
        {progress.isOver ? (
          <a class="button main" href={progress.file} download={`stoa-${name.replace(/[^a-zA-Z0-9]/g, "-")}.pcapng`}>
            Download for Wireshark
          </a>
        ) : (
          <button onClick={stop}>Stop</button>
        )}
      </p>
    </Card>
  );
}

export function Capture(): JSX.Element {
  const { query } = useCell(place);
  const { data } = usePoll(interfaceCounters, 0, []);
  const [wish, setWish] = useState<Wish>({ interface: query.get("interface") ?? "any", packets: 100, seconds: 30, filter: "", direction: ["rx", "tx"] });
  const [progress, setProgress] = useState<Progress>();
  const [failure, setFailure] = useState<Failure>();
  const stopper = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => stopper.current?.abort(), []);
  const names = [...new Set(["any", wish.interface, ...(data ?? []).map((one) => one.name)])];
  const set = (part: Partial<Wish>): void => setWish({ ...wish, ...part });
  const start = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (progress?.file) URL.revokeObjectURL(progress.file);
    setFailure(undefined);
    const over = new AbortController();
    stopper.current = over;
    const begun = Date.now();
    setProgress({ frames: 0, bytes: 0, begun, isOver: false, file: "" });
    try {
      let last = { frames: 0, bytes: 0 };
      const file = await take(wish, over.signal, (frames, size) => {
        last = { frames, bytes: size };
        setProgress({ ...last, begun, isOver: false, file: "" });
      });
      setProgress({ ...last, begun, isOver: true, file: URL.createObjectURL(file) });
    } catch (error) {
      setProgress(undefined);
      if (!over.signal.aborted) {
        const lost = [{ path: "", message: "The capture was interrupted: start it again.", tag: "" }];
        setFailure(error instanceof Failure ? error : new Failure(0, lost));
      }
    }
  };
  const isRunning = progress !== undefined && !progress.isOver;
  return (
    <>
      <Card title="New capture" wide>
        <form class="row" onSubmit={(event) => void start(event)}>
          <Field label="Interface">
            <select value={wish.interface} onChange={(event) => set({ interface: typed(event) })}>
              {names.map((name) => (
                <option value={name}>{name === "any" ? "any: all interfaces" : name}</option>
              ))}
            </select>
          </Field>
          <Field label="Maximum packets">
            <input type="number" min={1} max={1_000_000} required value={wish.packets} onInput={(event) => set({ packets: Number(typed(event)) })} />
          </Field>
          <Field label="Maximum seconds">
            <input type="number" min={1} max={3_600} required value={wish.seconds} onInput={(event) => set({ seconds: Number(typed(event)) })} />
          </Field>
          <Field label="Filter, as for tcpdump">
            <input placeholder="icmp or host 192.0.2.1" value={wish.filter} onInput={(event) => set({ filter: typed(event) })} spellcheck={false} autocapitalize="none" maxLength={2048} />
          </Field>
          <fieldset>
            <legend>Packets that are</legend>
            {DIRECTIONS.map(([name, words]) => (
              <label class="check">
                <input
                  type="checkbox"
                  checked={wish.direction.includes(name)}
                  onChange={(event) => set({ direction: event.currentTarget.checked ? [...wish.direction, name] : wish.direction.filter((one) => one !== name) })}
                />{" "}
                {words}
              </label>
            ))}
          </fieldset>
          <button class="main" disabled={isRunning || wish.direction.length === 0}>
            {isRunning ? "Capturing …" : "Start"}
          </button>
        </form>
        <Faults faults={failure?.faults ?? []} />
        {!progress && !failure && <Notice mood="idle">A capture does not slow forwarding: packets that do not fit are not captured. Packets contain the data of users: capture only what you need.</Notice>}
      </Card>
      {progress && <Result progress={progress} name={wish.interface} stop={() => stopper.current?.abort()} />}
    </>
  );
}
