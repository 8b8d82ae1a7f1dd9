/** The keys of the console, and whether single keys act at all. */

export const KEYS: readonly (readonly [string, string])[] = [
  ["⌘K", "the command palette"],
  ["?", "this list"],
  ["/", "search"],
  ["g f", "the fleet"],
  ["g n", "the inbox"],
  ["g i", "insights"],
  ["g s", "settings"],
  ["j k", "down and up"],
  ["Enter", "open what is marked"],
  ["x X", "select the marked run, or all up to it; two can be compared"],
  ["e", "mark the run, or those that are selected, as seen"],
  ["c", "compare the marked run, or the run that is open"],
  ["f", "filter the fleet; find in a run"],
  ["s S", "sort the fleet by the next column; the other way round"],
  ["p", "pause the fleet, and go on"],
  ["1 – 8", "the tabs of a run; in the inbox, a choice"],
  ["[ ]", "one record back and on; in insights, widen the brush"],
  ["{ }", "one turn back and on"],
  [", .", "the failure before and after"],
  ["w", "why did this happen"],
  ["a", "show everything as it was at the chosen record"],
  ["l", "back to live"],
  ["n", "the newest record of a run, and stay there; in a comparison, the next difference"],
  ["+ -", "closer and further away, in a waterfall"],
  ["z", "zoom into the brushed time"],
  ["t", "dark or light; in insights, charts as tables"],
  ["Esc", "back, or close"],
];

const STORED = "tracklog.keys";

/** Whether keys without ⌘ or Ctrl act; a person may turn them off. */
export const singleKeys = (): boolean => localStorage.getItem(STORED) !== "off";

export function setSingleKeys(on: boolean): void {
  localStorage.setItem(STORED, on ? "on" : "off");
}
