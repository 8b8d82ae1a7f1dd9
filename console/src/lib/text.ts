/** Foreign text made harmless to read: nothing hidden, nothing that turns the line around. */

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const TURNING = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;
const ANSI = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** Colour codes go; other control characters and marks that turn text around are spelled out. */
export function inert(text: string): string {
  return text
    .replace(ANSI, "")
    .replace(CONTROL, (c) => String.fromCharCode(0x2400 + (c.charCodeAt(0) & 0x1f)))
    .replace(TURNING, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The beginning of a text, whole characters only. */
export function start(text: string, most: number): string {
  return text.length <= most ? text : `${[...text.slice(0, most + 1)].slice(0, most - 1).join("")}…`;
}
