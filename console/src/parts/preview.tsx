/** The first lines of a call and its result: of an edit the difference, of a failure the lines that say why. */

import type { StoryFact } from "../lib/answers";
import { inert, start } from "../lib/text";
import { plain } from "./blocks";

const LINES = 4;
const WIDE = 240; // characters of a line
const WORSE = /fail|error|exception|denied|not found|cannot|✗|✕/i;

export interface PreviewLine {
  readonly kind: "" | "add" | "del" | "bad";
  readonly text: string;
}

/** The lines of a preview, and how many more there are. */
export function previewOf(
  call: Readonly<Record<string, unknown>>,
  result: StoryFact | undefined,
  failed: boolean,
): { lines: PreviewLine[]; more: number } {
  const input = (call.input ?? {}) as Record<string, unknown>;
  const [old, fresh] = [input.old_string ?? input.old_str, input.new_string ?? input.new_str];
  if (!failed && typeof old === "string" && typeof fresh === "string") {
    const [before, after] = [new Set(old.split("\n")), new Set(fresh.split("\n"))];
    const lines: PreviewLine[] = [
      ...old
        .split("\n")
        .filter((line) => !after.has(line))
        .map((text) => ({ kind: "del" as const, text: `- ${text}` })),
      ...fresh
        .split("\n")
        .filter((line) => !before.has(line))
        .map((text) => ({ kind: "add" as const, text: `+ ${text}` })),
    ];
    return { lines: lines.slice(0, LINES), more: Math.max(lines.length - LINES, 0) };
  }
  const value = result?.error ?? result?.output ?? result?.status;
  const text = typeof value === "string" ? value : value === undefined || value === null ? "" : plain(value);
  const all = text.split("\n").filter((line) => line.trim());
  const bad = failed ? all.filter((line) => WORSE.test(line)) : [];
  const order = failed && bad.length ? [...bad, ...all.filter((line) => !bad.includes(line))] : all;
  return {
    lines: order.slice(0, LINES).map((line) => ({ kind: bad.includes(line) ? "bad" : "", text: line })),
    more: Math.max(order.length - LINES, 0),
  };
}

const [LONG, FIGURES] = [2, /\d+ (?:failed|passed|errors?|matches|tests)\b[^\n]{0,60}/i];

/** What came of a call in a few words: lines of an edit, counts of a test run, the exit code, how long the output is. */
export function resultOf(call: StoryFact, result: StoryFact | undefined): string {
  const input = (call.input ?? {}) as Record<string, unknown>;
  const [old, fresh] = [input.old_string ?? input.old_str, input.new_string ?? input.new_str];
  if (typeof old === "string" && typeof fresh === "string" && result?.ok !== false) {
    const [before, after] = [old.split("\n"), fresh.split("\n")];
    const added = after.filter((each) => !before.includes(each)).length;
    const removed = before.filter((each) => !after.includes(each)).length;
    return `+${added} −${removed}`;
  }
  if (!result) return "";
  const value = result.error ?? result.output;
  const text = typeof value === "string" ? value : "";
  const counted = FIGURES.exec(text.slice(-400))?.[0]?.replace(/ in [\d.]+ ?m?s.*$/, "");
  if (counted) return counted;
  if (typeof result.exit_code === "number" && result.exit_code !== 0) return `exit code ${result.exit_code}`;
  const lines = text.split("\n").length;
  return result.ok !== false && lines > LONG ? `${lines} lines` : "";
}

interface Props {
  readonly call: StoryFact;
  readonly result: StoryFact | undefined;
  readonly failed: boolean;
  /** Shows all of it in its place; where that is not possible, the lines are only counted. */
  readonly open?: () => void;
}

export function Preview({ call, result, failed, open }: Props) {
  const { lines, more } = previewOf(call, result, failed);
  if (!lines.length) return null;
  return (
    <pre className="preview">
      {lines.map((line, n) => (
        <span key={n} className={line.kind}>
          {inert(start(line.text, WIDE))}
          {"\n"}
        </span>
      ))}
      {more > 0 &&
        (open ? (
          <button className="link soft" onClick={open}>
            {more} more {more === 1 ? "line" : "lines"}
          </button>
        ) : (
          <span className="soft">
            {more} more {more === 1 ? "line" : "lines"}
          </span>
        ))}
    </pre>
  );
}
