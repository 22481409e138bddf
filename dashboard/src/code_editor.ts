// The editor of JSON text: line numbers, marked errors, search. It is loaded when it is first shown.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { HighlightStyle, bracketMatching, foldGutter, foldKeymap, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** An error at a place of the text. */
export interface Mark {
  /** Zero-based positions. */
  from: number;
  to: number;
  message: string;
}

/** An open editor. */
export interface CodeEditor {
  setText: (text: string) => void;
  setMarks: (marks: Mark[]) => void;
  /** Shows and selects a part of the text. */
  select: (from: number, to: number) => void;
  close: () => void;
}

// Colours of the style sheet of the page, which are inherited.
const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "0.92rem" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.45" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--muted)", borderRight: "1px solid var(--edge)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--tint) 45%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--tint)", color: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 18%, transparent)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--tint)", outline: "1px solid var(--accent)" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-tint)", outline: "1px solid var(--warn)" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--text)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--edge)" },
  ".cm-textfield, .cm-button": { border: "1px solid var(--strong-edge)", borderRadius: "4px", background: "var(--surface)", color: "var(--text)", fontSize: "0.9rem" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--strong-edge)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", backgroundColor: "var(--bad-tint)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--tint)", border: "none", color: "var(--text)" },
});

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  { tag: tags.punctuation, color: "var(--muted)" },
]);

/** Opens an editor in an element. `change` is called with the text whenever the user changes it. */
export function open(room: HTMLElement, text: string, label: string, change: (text: string) => void): CodeEditor {
  // The editor makes its styles by script. The policy of the page forbids that in a document, and permits
  // constructed style sheets, which the editor uses in a shadow tree.
  const root = room.shadowRoot ?? room.attachShadow({ mode: "open" });
  root.replaceChildren();
  let isOwn = false;
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        highlightActiveLineGutter(),
        highlightActiveLine(),
        foldGutter(),
        lintGutter(),
        history(),
        drawSelection(),
        bracketMatching(),
        highlightSelectionMatches(),
        search(),
        json(),
        syntaxHighlighting(COLOURS),
        THEME,
        EditorState.tabSize.of(2),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "none" }),
        // Tab leaves the editor, as with any other field.
        keymap.of([...searchKeymap, ...lintKeymap, ...foldKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !isOwn) change(update.state.doc.toString());
        }),
      ],
    }),
  });
  const within = (place: number): number => Math.max(0, Math.min(place, view.state.doc.length));
  return {
    setText: (now) => {
      if (now === view.state.doc.toString()) return;
      isOwn = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: now } });
      isOwn = false;
    },
    setMarks: (marks) => {
      const list = marks.map(({ from, to, message }) => ({ from: within(from), to: within(Math.max(from, to)), severity: "error" as const, message }));
      view.dispatch(setDiagnostics(view.state, list.sort((a, b) => a.from - b.from)));
    },
    select: (from, to) => {
      view.dispatch({ selection: { anchor: within(from), head: within(to) }, effects: EditorView.scrollIntoView(within(from), { y: "center" }) });
      view.focus();
    },
    close: () => view.destroy(),
  };
}
