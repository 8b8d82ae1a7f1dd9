/** The command palette: commands, runs and places by a few letters. */

import { Command } from "cmdk";
import { useEffect, useRef, useState } from "react";
import type { RunRow } from "../lib/answers";
import { address, ask } from "../lib/api";
import { clockOn, rangeText } from "../lib/range";
import { go, href, runHref, setQuery, useRoute } from "../lib/route";
import { selected } from "../lib/selection";
import { SETTINGS } from "../lib/settings";
import { inert } from "../lib/text";
import { ago, count } from "../lib/time";
import { useAnswer, useLast, useNow } from "../lib/use";
import { Icon, StatusGlyph } from "./icons";

const RUNS = 6;
const ALERTS = 3;
const SLICES = 1000;

interface Deed {
  readonly name: string;
  readonly keys?: string;
  readonly act: () => void;
}

const PLACES: readonly (readonly [string, string, string])[] = [
  ["Fleet", "#/", "G F"],
  ["Inbox", "#/inbox", "G N"],
  ["Insights", "#/insights", "G I"],
  ["Insights: failed calls by tool", "#/insights?metric=failures&by=tool", ""],
  ["Search", "#/search", "/"],
  ["Compare two runs", "#/compare", ""],
  ["Settings", "#/settings", "G S"],
  ...SETTINGS.map(([part, label]) => [`Settings: ${label}`, `#/settings/${part}`, ""] as const),
];
/** The picture of a place: that of its page, or of its part of the settings. */
function iconOf(
  name: string,
  hash: string,
): (typeof SETTINGS)[number][3] | "fleet" | "insights" | "search" | "compare" | "settings" {
  const part = SETTINGS.find(([key]) => hash === `#/settings/${key}`);
  if (part) return part[3];
  const page = (["Fleet", "Inbox", "Insights", "Search", "Compare"] as const).find((each) => name.startsWith(each));
  return page ? (page.toLowerCase() as Lowercase<typeof page>) : "settings";
}

/** The pages that show a range of time, by the first part of their address. */
const RANGED: readonly (string | undefined)[] = [undefined, "", "insights", "search"];

interface Props {
  readonly close: () => void;
  readonly turn: () => void;
}

export default function Palette({ close, turn }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [marked, mark] = useState("");
  const moved = useRef(false); // the first is marked until somebody moves the mark
  const { parts } = useRoute();
  const now = useNow(10_000);
  useEffect(() => {
    box.current?.showModal();
    box.current?.querySelector("input")?.focus();
  }, []);
  const [sign, words] = /^[>#@:]/.test(text) ? [text[0], text.slice(1).trim()] : ["", text.trim()];
  const answer = useAnswer(sign === "" ? address("/api/runs", { limit: RUNS, text: words }) : null, "never").data;
  const runs = useLast(answer)?.filter(
    (each) => contains([each.title, each.run, ...each.agents].join(" "), words), // the answer to the letters before has more
  );
  const agents = useAnswer(sign === "@" ? address("/api/agents") : null, "never").data ?? [];
  const names = [...new Set(agents.map((each) => each.agent))].filter((each) => contains(each, words));
  const incidents = useAnswer(sign === "" ? address("/api/alerts") : null, "never").data?.incidents ?? [];
  const firing = words ? incidents.filter((each) => contains(`${each.rule} ${each.summary}`, words)) : [];
  const places = PLACES.filter(([name]) => contains(name, words));
  const run = (act: () => void) => {
    box.current?.close();
    close(); // now: its event comes later, and would close a palette that was opened again meanwhile
    act();
  };
  useEffect(() => {
    const look = () => {
      const first = box.current?.querySelector("[cmdk-item]")?.getAttribute("data-value");
      const gone = !box.current?.querySelector('[cmdk-item][data-selected="true"]');
      if ((!moved.current || gone) && first) mark(first);
    };
    const timer = setTimeout(look); // what was found is drawn by then
    return () => clearTimeout(timer);
  }, [text, answer, agents.length]);
  const [page, family = "", id = ""] = parts;
  const here = page === "run" ? { family, run: id, title: "" } : selected();
  const to = here && runHref(here.family, here.run);
  const ofRun: readonly Deed[] = here
    ? [
        page === "run"
          ? { name: "Return to live", keys: "L", act: () => setQuery({ at: "", seq: "" }) }
          : { name: "Open this run", keys: "↵", act: () => go(to ?? "") },
        { name: "Compare this run", keys: "C", act: () => go(href(["compare", `${here.family}:${here.run}`])) },
        { name: "Waterfall of this run", act: () => go(href(["run", here.family, here.run, "waterfall"])) },
        { name: "Cost of this run", act: () => go(href(["run", here.family, here.run, "cost"])) },
      ]
    : [];
  const named = (all: readonly Deed[]) => all.filter((deed) => contains(deed.name, words));
  const onRun = sign === "" || sign === ">" ? named(ofRun) : [];
  const deeds =
    sign === ">" || (sign === "" && words)
      ? named([
          { name: "Dark or light", keys: "T", act: turn },
          { name: "Copy link", act: () => void navigator.clipboard?.writeText(location.href) },
        ])
      : [];
  const times = sign === ":" ? timesOf(words, parts, now) : [];
  const record = async () => {
    const seq = Number(words);
    const { events } = await ask(address("/api/events", { after: seq - 1, limit: 1 }));
    const first = (events as readonly { seq: number; family?: string; dialect: string; run: string }[])[0];
    if (first?.seq === seq) go(runHref(first.family ?? first.dialect, first.run, { seq }));
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it
    <dialog
      ref={box}
      className="palette"
      aria-label="Command palette"
      onClose={close}
      onClick={(event) => event.target === box.current && box.current?.close()}
    >
      <Command
        label="Command palette"
        shouldFilter={false}
        value={marked}
        onValueChange={mark}
        onKeyDown={(event) => {
          if (event.key.startsWith("Arrow")) moved.current = true;
        }}
      >
        <div className="palette-top">
          <Icon name="search" size={16} />
          <Command.Input
            value={text}
            onValueChange={(next) => {
              moved.current = false;
              setText(next);
            }}
            placeholder="A command, a run, a place"
          />
          <kbd>esc</kbd>
        </div>
        <Command.List>
          <Command.Empty>Nothing has this name.</Command.Empty>
          {onRun.length > 0 && (
            <Command.Group heading={page === "run" || !here ? "On this run" : `On this run: ${inert(here.title)}`}>
              {onRun.map((deed) => (
                <Item key={deed.name} deed={deed} sign={sign} words={words} run={run} />
              ))}
            </Command.Group>
          )}
          {sign === "" && (runs?.length ?? 0) > 0 && (
            <Command.Group heading="Runs">
              {runs?.map((each) => (
                <Command.Item
                  key={`${each.family}:${each.run}`}
                  value={`${each.family}:${each.run}`}
                  onSelect={() => run(() => go(runHref(each.family, each.run)))}
                >
                  <StatusGlyph status={each.status} />
                  <span className="grow cut">
                    <Found words={words}>{each.title ?? each.run}</Found>
                  </span>
                  <span className="soft">
                    {each.title && !contains(each.title, words) && `${inert(each.run)} · `}
                    {aboutRun(each, now)}
                  </span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {deeds.length > 0 && (
            <Command.Group heading="Commands">
              {deeds.map((deed) => (
                <Item key={deed.name} deed={deed} sign={sign} words={words} run={run} />
              ))}
            </Command.Group>
          )}
          {sign === "@" && names.length > 0 && (
            <Command.Group heading="Runs of an agent">
              {names.map((agent) => (
                <Command.Item key={agent} value={`@${agent}`} onSelect={() => run(() => go(href([], { agent })))}>
                  <Icon name="robot" /> <Found words={words}>{agent}</Found>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {times.length > 0 && (
            <Command.Group heading="Time">
              {times.map((deed) => (
                <Item key={deed.name} deed={deed} sign={sign} words="" run={run} />
              ))}
            </Command.Group>
          )}
          {sign === "#" && /^\d+$/.test(words) && (
            <Command.Group heading="Record">
              <Command.Item value={text} onSelect={() => run(() => void record())}>
                <Icon name="right" /> Open record #{words}
              </Command.Item>
            </Command.Group>
          )}
          {sign === "" && (places.length > 0 || words) && (
            <Command.Group heading="Go to">
              {places.map(([name, hash, keys]) => (
                <Command.Item key={name} value={name} onSelect={() => run(() => go(hash))}>
                  <Icon name={iconOf(name, hash)} />{" "}
                  <span className="grow">
                    <Found words={words}>{name}</Found>
                  </span>
                  {keys
                    .split(" ")
                    .filter(Boolean)
                    .map((each) => (
                      <kbd key={each}>{each}</kbd>
                    ))}
                </Command.Item>
              ))}
              {words &&
                answer && ( // not before the runs: Enter opens what stands first
                  <Command.Item
                    value={`search ${words}`}
                    onSelect={() => run(() => go(href(["search"], { q: words })))}
                  >
                    <Icon name="search" /> <span className="grow">Search everything for “{words}”</span>
                  </Command.Item>
                )}
            </Command.Group>
          )}
          {firing.length > 0 && (
            <Command.Group heading="Alerts">
              {firing.slice(0, ALERTS).map((each) => (
                <Command.Item
                  key={each.id}
                  value={`alert ${each.id}`}
                  onSelect={() => run(() => go(href(["settings", "alerts"])))}
                >
                  <Icon name="bell" />
                  <span className="grow cut">
                    <Found words={words}>{`${each.rule}: ${each.summary}`}</Found>
                  </span>
                  <span className="soft">
                    {each.state} {ago(each.since, now)}
                  </span>
                </Command.Item>
              ))}
              {firing.length > ALERTS && (
                <Command.Item value="all alerts" onSelect={() => run(() => go(href(["settings", "alerts"])))}>
                  <Icon name="bell" /> <span className="grow">{count(firing.length - ALERTS)} more alerts</span>
                </Command.Item>
              )}
            </Command.Group>
          )}
        </Command.List>
        <p className="palette-foot soft">
          <span>
            <kbd>↑</kbd> <kbd>↓</kbd> move <kbd>↵</kbd> open
          </span>
          <span>
            <b>&gt;</b> commands <b>#</b> record <b>@</b> agent <b>:</b> time
          </span>
        </p>
      </Command>
    </dialog>
  );
}

/** What a time can mean here: a range up to now, or a moment of the run that is open. */
function timesOf(text: string, [page, family = "", id = ""]: readonly string[], now: number): readonly Deed[] {
  const span = /^(\d{1,6})\s*([mhdw])$/.exec(text);
  if (span && RANGED.includes(page)) {
    const since = `-${span[1]}${span[2]}`;
    return [
      { name: `From ${rangeText({ since, until: "" }, now)}`, act: () => setQuery({ since, until: "", within: "" }) },
    ];
  }
  if (page !== "run" || !/^\d{1,2}:\d{2}(:\d{2})?$/.test(text)) return [];
  const moment = async () => {
    const slices = await ask(address("/api/runs/{family}/{run}/density", { family, run: id, slices: SLICES }));
    const at = clockOn(slices.begin ?? "", slices.end ?? "", text);
    const first = slices.seq.findLast((seq, n) => seq !== null && Date.parse(slices.at[n] ?? "") <= at);
    setQuery({ seq: String(first ?? slices.seq.find((seq) => seq !== null) ?? "") });
  };
  return [{ name: `What it did at ${text}`, act: () => void moment() }];
}

/** Whether a name has every word of what was typed. */
function contains(name: string, typed: string): boolean {
  const low = name.toLowerCase();
  return wordsOf(typed).every((word) => low.includes(word));
}

const wordsOf = (typed: string): string[] => typed.toLowerCase().split(/\s+/).filter(Boolean);

/** A name in which the words that were typed stand out. */
function Found({ children, words }: { children: string; words: string }) {
  const text = inert(children);
  const low = text.toLowerCase();
  const parts: { readonly text: string; readonly found: boolean }[] = [];
  const spots = wordsOf(words)
    .map((word) => [low.indexOf(word), word.length] as const)
    .filter(([at]) => at >= 0)
    .sort(([a], [b]) => a - b);
  let done = 0;
  for (const [at, length] of spots) {
    if (at < done) continue;
    parts.push({ text: text.slice(done, at), found: false }, { text: text.slice(at, at + length), found: true });
    done = at + length;
  }
  parts.push({ text: text.slice(done), found: false });
  return <bdi>{parts.map((part, n) => (part.found ? <b key={n}>{part.text}</b> : part.text))}</bdi>;
}

/** The folder of a run, and what it does or when it was active last. */
function aboutRun({ project, status, last_activity: at }: RunRow, now: number): string {
  const folder = project?.split(/[\\/]/).filter(Boolean).pop();
  return [folder && inert(folder), status === "waiting" ? "waiting" : ago(at, now)].filter(Boolean).join(" · ");
}

interface ItemProps {
  readonly deed: Deed;
  readonly sign: string | undefined;
  readonly words: string;
  readonly run: (act: () => void) => void;
}

function Item({ deed, sign, words, run }: ItemProps) {
  return (
    <Command.Item value={`${sign}${deed.name}`} onSelect={() => run(deed.act)}>
      <Icon name="play" />{" "}
      <span className="grow">
        <Found words={words}>{deed.name}</Found>
      </span>
      {deed.keys && <kbd>{deed.keys}</kbd>}
    </Command.Item>
  );
}
