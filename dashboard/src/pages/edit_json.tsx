// The whole candidate as JSON, with the router's reasons shown at their lines.
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
    // What somebody else did is taken over while nothing was typed.
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
    const wanted = JSON.parse(text) as Members;
    try {
      setDisordered(await save(base, wanted));
      // What the router has now, which may be written or ordered in another way than it was typed.
      const made = candidate.value ?? wanted;
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
    <Card title="The whole candidate" note="passwords and secrets are not shown, and stay" wide>
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
            The candidate was changed meanwhile. Only what you changed is sent; “Show it anew” forgets your changes.
          </Notice>
        )}
        <Faults faults={failure?.faults ?? []} locate={line} />
        {isSaved && (
          <Notice mood="good" live>
            The candidate is changed. <a href={link("configuration", ["commit"])}>See the difference and commit.</a>
          </Notice>
        )}
        {disordered.length > 0 && (
          <Notice mood="warn" live>
            The router keeps another order than was typed. What is shown is what it has: look at it before you commit.
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
            Put into the candidate
          </button>
          <button type="button" disabled={!isTouched} onClick={reset}>
            Show it anew
          </button>
          <a class="button" href={link("configuration", ["commit"])}>
            Difference and commit
          </a>
        </span>
      </form>
    </Card>
  );
}
