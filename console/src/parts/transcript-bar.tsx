/** What of a transcript is shown, by kind; and words to find in it. */

import { useEffect, useRef, useState } from "react";
import { address } from "../lib/api";
import { CHIPS, countOf, hidesMoves, LABELS, type Shown } from "../lib/kinds";
import { setQuery, useRoute } from "../lib/route";
import { count } from "../lib/time";
import { useAnswer, useKeys } from "../lib/use";
import type { Where } from "./entry";
import { Icon, StatusGlyph } from "./icons";

const MOST = 1000; // hits that one goes through
const STEADY = 250; // milliseconds without a key

interface Props {
  readonly where: Where;
  readonly kind: Shown;
  readonly withMoves: boolean;
  readonly at: number;
  readonly seq: number;
}

export function TranscriptBar({ where, kind, withMoves, at, seq }: Props) {
  const { runRecords } = where;
  const until = at ? runRecords.place(at + 1) : Infinity;
  const chips = CHIPS.filter((each) => each === "all" || countOf(runRecords, each, until) > 0);
  return (
    <div className="transcript-bar">
      {chips.map((each) => {
        const isMoves = each === "moves" && hidesMoves(runRecords);
        const on = isMoves ? withMoves : kind === each;
        return (
          <button
            key={each}
            className={`chip${on ? " on" : ""}${isMoves ? " dashed" : ""}`}
            aria-pressed={on}
            onClick={() =>
              setQuery(
                isMoves
                  ? { moves: withMoves ? "" : "1", kind: "" }
                  : { kind: each === "all" || kind === each ? "" : each },
              )
            }
          >
            {each === "failed" && <StatusGlyph status="failed" />}
            {LABELS[each]} <span className="num">{count(countOf(runRecords, each, until))}</span>
          </button>
        );
      })}
      <span className="grow" />
      <Find where={where} seq={seq} />
    </div>
  );
}

/** Finds words in the run; Enter goes to the next place. */
function Find({ where: { family, run, choose }, seq }: { where: Where; seq: number }) {
  const { query } = useRoute();
  const words = query.get("find") ?? "";
  const [typed, setTyped] = useState(words);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => setQuery({ find: typed.trim() }), STEADY);
    return () => clearTimeout(timer);
  }, [typed]);
  const { data, trouble } = useAnswer(
    words ? address("/api/search", { q: words, run: `${family}:${run}`, brief: true, limit: MOST }) : null,
    "never",
  );
  const seqs = (data ?? []).map((hit) => hit.seq).sort((a, b) => a - b);
  const here = seqs.indexOf(seq);
  const go = (by: number) => {
    const next = here >= 0 ? here + by : by > 0 ? seqs.findIndex((each) => each > seq) : seqs.length - 1;
    const found = seqs[(next + seqs.length) % seqs.length];
    if (found) choose(found);
  };
  useKeys({ f: () => box.current?.focus() });
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "f" || !(event.metaKey || event.ctrlKey)) return;
      event.preventDefault();
      box.current?.focus();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  return (
    <search className="find-in-run">
      <Icon name="search" size={14} />
      <input
        ref={box}
        type="search"
        aria-label="Find in this run"
        placeholder="Find"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !seqs.length) return;
          event.preventDefault();
          go(event.shiftKey ? -1 : 1);
        }}
      />
      <span className="soft num" role="status">
        {trouble
          ? "not understood"
          : words && data
            ? here >= 0
              ? `${here + 1} of ${count(seqs.length)}`
              : `${count(seqs.length)} found`
            : ""}
      </span>
    </search>
  );
}
