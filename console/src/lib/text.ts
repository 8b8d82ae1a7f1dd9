/** Foreign text made harmless to read: nothing hidden, nothing that turns the line around. */

// Letters that nobody sees; joiners stay, because scripts and emoji need them, and a flag is written in tags.
const UNSEEN =
  /[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0]|(?<!\u{1f3f4}[\u{e0020}-\u{e007f}]*)[\u{e0000}-\u{e007f}]/gu;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const TURNING = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;
const ANSI = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

const spelled = (c: string): string => `⟨U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** Colour codes go; other control characters and marks that hide or turn text are spelled out. */
export function inert(text: string): string {
  return text
    .replace(ANSI, "")
    .replace(CONTROL, (c) => String.fromCharCode(0x2400 + (c.charCodeAt(0) & 0x1f)))
    .replace(TURNING, spelled)
    .replace(UNSEEN, spelled);
}

/** The beginning of a text, whole characters only. */
export function start(text: string, most: number): string {
  return text.length <= most ? text : `${[...text.slice(0, most + 1)].slice(0, most - 1).join("")}…`;
}

/** The argument that says most of a call, by the names that tools have for it. */
export const TELLING = [
  "file_path",
  "path",
  "command",
  "cmd",
  "pattern",
  "query",
  "url",
  "description",
  "prompt",
] as const;
const TOLD = new RegExp(`"(?:${TELLING.join("|")})":"((?:[^"\\\\]|\\\\.)*)`);

/** Of an input that was told as JSON, perhaps cut: the argument that says most, or the text. */
export function telling(input: string): string {
  return TOLD.exec(input)?.[1]?.replace(/\\n/g, " ").replace(/\\(.)/g, "$1") ?? input;
}
