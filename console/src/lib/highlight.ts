/** Marks the words that are looked for in what is on the screen; nothing of the page is changed by it. */

import { type RefObject, useEffect } from "react";

const NAME = "found";

/** The places of any of the words in the text below an element. */
function places(within: Element, words: readonly string[]): Range[] {
  const found: Range[] = [];
  const walk = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const text = node.textContent?.toLowerCase() ?? "";
    for (const word of words)
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        found.push(range);
      }
  }
  return found;
}

/** Marks words below an element, and anew whenever it is drawn; a browser that cannot do so leaves them as they are. */
export function useHighlight(box: RefObject<Element | null>, phrase: string): void {
  useEffect(() => {
    if (!("highlights" in CSS)) return;
    const words = phrase.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && box.current) CSS.highlights.set(NAME, new Highlight(...places(box.current, words)));
    else CSS.highlights.delete(NAME);
  });
  useEffect(() => () => void ("highlights" in CSS && CSS.highlights.delete(NAME)), []);
}
