// Code editor (CodeMirror 6) with completion by the server, marked errors, and earlier texts by Ctrl+Up and Ctrl+Down.
import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  closeBrackets,
  closeCompletion,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, type StreamParser, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Extension, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { get, type Schemas, type TextRange } from "../api/client";
import { byteToUnit, unitToByte } from "./bytes";
import { addRecent, recentTexts } from "./recent";

/** A language of the editor: the name in the completion API, and the parser for syntax colours. */
export interface Language {
  name: "travel" | "filter" | "sparql";
  parser: StreamParser<unknown>;
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--t-run)", fontWeight: "600" },
  { tag: tags.string, color: "var(--t-user)" },
  { tag: tags.number, color: "var(--t-exe)" },
  { tag: tags.comment, color: "var(--fg-2)", fontStyle: "italic" },
  { tag: tags.variableName, color: "var(--t-data)" },
  { tag: tags.atom, color: "var(--t-exe)" },
  { tag: tags.operator, color: "var(--fg-2)" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--fg)", backgroundColor: "var(--bg)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--fg)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--fg)" },
  ".cm-gutters": { backgroundColor: "var(--bg-2)", color: "var(--fg-2)", borderRight: "1px solid var(--line)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-tooltip": { backgroundColor: "var(--bg)", border: "1px solid var(--line)", color: "var(--fg)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--fg)" },
  ".cm-completionDetail": { color: "var(--fg-2)" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-placeholder": { color: "var(--fg-2)" },
});

/** CodeMirror's icon for each kind of completion item. */
const ICONS: Record<string, string> = {
  call: "function",
  edge: "property",
  type: "type",
  attribute: "variable",
  tag: "variable",
  operator: "keyword",
  keyword: "keyword",
  vertex: "constant",
  predicate: "property",
  variable: "variable",
  prefix: "namespace",
};

function complete(language: Language["name"]) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const text = context.state.doc.toString();
    const stop = new AbortController();
    context.addEventListener("abort", () => stop.abort());
    try {
      const completion = await get<Schemas["Completion"]>(
        "/api/v1/complete",
        { what: language, text, at: unitToByte(text, context.pos) },
        stop.signal,
      );
      if (completion.items.length === 0) return null;
      return {
        from: byteToUnit(text, completion.from),
        filter: false,
        options: completion.items.map((item) => ({
          label: item.label,
          detail: item.detail,
          apply: item.apply,
          type: ICONS[item.kind] ?? "text",
        })),
      };
    } catch {
      return null;
    }
  };
}

interface Props {
  language: Language;
  label: string;
  value: string;
  onChange: (text: string) => void;
  onRun: () => void;
  error?: { message: string; at: TextRange | null } | null;
  hint?: string;
  height?: number;
}

/** Editor for a traversal, a filter or a query; `height` is the minimum in pixels, `hint` the text of an empty editor. */
export function CodeEditor({ language, label, value, onChange, onRun, error, hint, height = 120 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const calls = useRef({ onChange, onRun });
  calls.current = { onChange, onRun };
  // biome-ignore lint/correctness/useExhaustiveDependencies: the editor is created once; another effect updates its text
  useEffect(() => {
    if (!box.current) return;
    let position = -1;
    const browse = (step: number) => (editor: EditorView) => {
      const texts = recentTexts(language.name);
      const next = Math.max(-1, Math.min(texts.length - 1, position + step));
      if (next === position) return true;
      position = next;
      const text = next < 0 ? "" : (texts[next] ?? "");
      editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text }, selection: { anchor: text.length } });
      return true;
    };
    const run = () => {
      if (view.current) closeCompletion(view.current);
      addRecent(language.name, view.current?.state.doc.toString() ?? "");
      position = 0;
      if (view.current) closeCompletion(view.current);
      calls.current.onRun();
      return true;
    };
    const extensions: Extension[] = [
      Prec.highest(
        keymap.of([
          { key: "Mod-Enter", run },
          { key: "Ctrl-ArrowUp", run: browse(1) },
          { key: "Ctrl-ArrowDown", run: browse(-1) },
        ]),
      ),
      lineNumbers(),
      history(),
      drawSelection(),
      bracketMatching(),
      closeBrackets(),
      keymap.of([...defaultKeymap, ...historyKeymap]),
      StreamLanguage.define(language.parser),
      syntaxHighlighting(colours),
      autocompletion({ override: [complete(language.name)], activateOnTypingDelay: 120 }),
      lintGutter(),
      placeholder(hint ?? ""),
      theme,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) calls.current.onChange(update.state.doc.toString());
      }),
    ];
    const editor = new EditorView({ parent: box.current, state: EditorState.create({ doc: value, extensions }) });
    view.current = editor;
    return () => {
      editor.destroy();
      view.current = null;
    };
  }, []);
  useEffect(() => {
    const editor = view.current;
    if (editor && editor.state.doc.toString() !== value) {
      editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
    }
  }, [value]);
  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const text = editor.state.doc.toString();
    const diagnostics: Diagnostic[] = [];
    if (error?.at) {
      const from = Math.min(byteToUnit(text, error.at.byte), text.length);
      const to = Math.min(Math.max(from + 1, byteToUnit(text, error.at.byte + error.at.length)), text.length);
      // An error at the end of the text marks the last character.
      diagnostics.push({
        from: Math.max(0, Math.min(from, to - 1)),
        to,
        severity: "error",
        message: error.message.split("\n")[0] ?? "",
      });
    }
    editor.dispatch(setDiagnostics(editor.state, diagnostics));
  }, [error]);
  return <div className="editor" ref={box} style={{ minHeight: height }} />;
}
