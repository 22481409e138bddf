// The whole candidate as JSON, with errors marked at their places.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { candidate, save } from "../candidate";
import type { CodeEditor, Mark } from "../code_editor";
import type { Members } from "../edits";
import { broken, lineEnd, locate, placeOf } from "../json_places";
import { Card, Faults, Notice } from "../parts";
import { link } from "../route";
import type { Failure } from "../server";
import { Saved } from "./entry_form";

const shown = (whole: Members): string => JSON.stringify(whole, null, 2);

/** A mark from a position to the end of its line. */
const markAt = (text: string, at: number, message: string): Mark => {
  const end = lineEnd(text, at);
  return { from: end > at ? at : Math.max(0, at - 1), to: end, message };
};

/** The editor in an element, once it is loaded. */
function useEditor(text: string, change: (text: string) => void): { room: { current: HTMLDivElement | null }; editor: CodeEditor | undefined; problem: string } {
  const room = useRef<HTMLDivElement>(null);
  const [editor, setEditor] = useState<CodeEditor>();
  const [problem, setProblem] = useState("");
  const current = useRef(change);
  current.current = change;
  useEffect(() => {
    let isOver = false;
    let opened: CodeEditor | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = (): void => {
      import("../code_editor").then(
        ({ open }) => {
          if (isOver || !room.current) return;
          opened = open(room.current, text, "The candidate as JSON", (now) => current.current(now));
          setProblem("");
          setEditor(opened);
        },
        () => {
          if (isOver) return;
          setProblem("The router does not answer with the editor. The page tries again.");
          timer = setTimeout(load, 2_000);
        },
      );
    };
    load();
    return () => {
      isOver = true;
      clearTimeout(timer);
      opened?.close();
    };
  }, []);
  // With the buttons, so that a click never finds another text than the one that is shown.
  useLayoutEffect(() => editor?.setText(text), [editor, text]);
  return { room, editor, problem };
}

/** Lists whose order the router stores differently. */
const Disordered = ({ paths, line }: { paths: string[]; line: (path: string) => JSX.Element | undefined }): JSX.Element => (
  <Notice mood="warn" live>
    The router stores another order than entered. The text shows the stored order: check it before you commit.
    <ul class="faults">
      {paths.map((path) => (
        <li>
          <code>{path}</code> {line(path)}
        </li>
      ))}
    </ul>
  </Notice>
);

export function JsonEditor({ whole }: { whole: Members }): JSX.Element {
  const [base, setBase] = useState(whole);
  const [text, setText] = useState(shown(whole));
  const [failure, setFailure] = useState<Failure>();
  const [isSaved, setSaved] = useState(false);
  const [disordered, setDisordered] = useState<string[]>([]);
  const { room, editor, problem } = useEditor(text, setText);
  const isTouched = text !== shown(base);
  useEffect(() => {
    // Changes of others are shown while the text is unmodified.
    if (!isTouched) {
      setBase(whole);
      setText(shown(whole));
    }
  }, [whole]);
  const wrong = broken(text);
  const faults = failure?.faults ?? [];
  useEffect(() => {
    if (wrong) editor?.setMarks([markAt(text, wrong.at, wrong.message)]);
    else editor?.setMarks(faults.filter(({ path }) => path !== "").map(({ path, message }) => markAt(text, locate(text, path), message)));
  }, [editor, text, failure]);
  const jump = (at: number): JSX.Element => (
    <button type="button" class="quiet" onClick={() => editor?.select(at, lineEnd(text, at))}>
      {placeOf(text, at)}
    </button>
  );
  const line = (path: string): JSX.Element | undefined => (wrong ? undefined : jump(locate(text, path)));
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    setFailure(undefined);
    setSaved(false);
    setDisordered([]);
    const desired = JSON.parse(text) as Members;
    try {
      setDisordered(await save(base, desired));
      // The form and order that the router stores, which may differ from the text.
      const made = candidate.value ?? desired;
      setBase(made);
      setText(shown(made));
      setSaved(true);
    } catch (error) {
      setFailure(error as Failure);
    }
  };
  const reset = (): void => {
    setBase(whole);
    setText(shown(whole));
    setFailure(undefined);
    setSaved(false);
    setDisordered([]);
  };
  const isBehind = isTouched && shown(base) !== shown(whole);
  return (
    <Card title="The whole candidate" note="passwords and secrets are hidden and stay unchanged; Ctrl+F searches" wide>
      <form onSubmit={(event) => void send(event)}>
        {problem && <Notice mood="warn">{problem}</Notice>}
        <div class="code" ref={room} />
        {!editor && !problem && (
          <p class="loading" role="status">
            Loading the editor …
          </p>
        )}
        {wrong && (
          <p class="wrong" role="status">
            {jump(wrong.at)}: {wrong.message}
          </p>
        )}
        {isBehind && (
          <Notice mood="warn" live>
            The candidate was changed meanwhile. Only your changes are sent; “Reload” discards them.
          </Notice>
        )}
        <Faults faults={faults} locate={line} />
        <Saved words={isSaved && !isTouched ? "Saved in the candidate." : ""} />
        {disordered.length > 0 && <Disordered paths={disordered} line={line} />}
        <span class="buttons">
          <button class="main" disabled={wrong !== undefined || !isTouched}>
            Save to candidate
          </button>
          <button type="button" disabled={!isTouched} onClick={reset}>
            Reload
          </button>
          <a class="button" href={link("configuration", ["commit"])}>
            Changes and commit
          </a>
        </span>
      </form>
    </Card>
  );
}
