// The whole candidate as JSON, with errors of the router at their lines.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { candidate, save } from "../candidate";
import type { Members } from "../edits";
import { Card, Faults, Notice, typed } from "../parts";
import { broken, lineOf, locate } from "../json_places";
import { link } from "../route";
import type { Failure } from "../server";

const shown = (whole: Members): string => JSON.stringify(whole, null, 2);

export function JsonEditor({ whole }: { whole: Members }): JSX.Element {
  const [base, setBase] = useState(whole);
  const [text, setText] = useState(shown(whole));
  const [failure, setFailure] = useState<Failure>();
  const [isSaved, setSaved] = useState(false);
  const [disordered, setDisordered] = useState<string[]>([]);
  const area = useRef<HTMLTextAreaElement>(null);
  const isTouched = text !== shown(base);
  useEffect(() => {
    // Changes of others are shown while the text is unmodified.
    if (!isTouched) {
      setBase(whole);
      setText(shown(whole));
    }
  }, [whole]);
  const wrong = broken(text);
  const jump = (begin: number, end: number): void => {
    const box = area.current;
    if (!box) return;
    box.focus();
    box.setSelectionRange(begin, end);
    const height = box.scrollHeight / text.split("\n").length;
    box.scrollTop = (lineOf(text, begin) - 4) * height;
  };
  const line = (path: string): JSX.Element | undefined => {
    if (wrong) return undefined;
    const begin = locate(text, path);
    const end = text.indexOf("\n", begin);
    return (
      <button type="button" class="quiet" onClick={() => jump(begin, end < 0 ? text.length : end)}>
        line {lineOf(text, begin)}
      </button>
    );
  };
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
    <Card title="The whole candidate" note="passwords and secrets are hidden and stay unchanged" wide>
      <form onSubmit={(event) => void send(event)}>
        <label class="unseen" for="json">
          The candidate as JSON
        </label>
        <textarea id="json" ref={area} class="mono" rows={26} value={text} onInput={(event) => setText(typed(event))} spellcheck={false} wrap="off" aria-invalid={wrong !== undefined} />
        {wrong && (
          <p class="wrong" role="status">
            Line {wrong.line}: {wrong.message}
          </p>
        )}
        {isBehind && (
          <Notice mood="warn" live>
            The candidate was changed meanwhile. Only your changes are sent; “Reload” discards them.
          </Notice>
        )}
        <Faults faults={failure?.faults ?? []} locate={line} />
        {isSaved && (
          <Notice mood="good" live>
            Saved in the candidate. <a href={link("configuration", ["commit"])}>Review the changes and commit.</a>
          </Notice>
        )}
        {disordered.length > 0 && (
          <Notice mood="warn" live>
            The router stores another order than entered. The text shows the stored order: check it before you commit.
            <ul class="faults">
              {disordered.map((path) => (
                <li>
                  <code>{path}</code> {line(path)}
                </li>
              ))}
            </ul>
          </Notice>
        )}
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
