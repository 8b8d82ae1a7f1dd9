/** The command palette: commands, runs and places by a few letters. */

import { Command } from "cmdk";
import { useEffect, useRef, useState } from "react";
import { address, ask } from "../lib/api";
import { clockOn, rangeText } from "../lib/range";
import { go, href, runHref, setQuery, useRoute } from "../lib/route";
import { SETTINGS } from "../lib/settings";
import { ago } from "../lib/time";
import { useAnswer, useLast, useNow } from "../lib/use";
import { Text } from "./bits";
import { Icon, StatusGlyph } from "./icons";

const RUNS = 6;
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
  const runs = useLast(answer);
  const agents = useAnswer(sign === "@" ? address("/api/agents") : null, "never").data ?? [];
  const firing = useAnswer(sign === "" ? address("/api/alerts") : null, "never").data?.incidents ?? [];
  const run = (act: () => void) => {
    box.current?.close();
    close(); // now: its event comes later, and would close a palette that was opened again meanwhile
    act();
  };
  useEffect(() => {
    const look = () => {
      const first = box.current?.querySelector("[cmdk-item]")?.getAttribute("data-value");
      if (!moved.current && first) mark(first);
    };
    const timer = setTimeout(look); // what was found is drawn by then
    return () => clearTimeout(timer);
  }, [text, answer, agents.length]);
  const [page, family = "", id = ""] = parts;
  const onRun: readonly Deed[] =
    page === "run"
      ? [
          { name: "Return to live", keys: "L", act: () => setQuery({ at: "", seq: "" }) },
          { name: "Compare this run", keys: "C", act: () => go(href(["compare", `${family}:${id}`])) },
          { name: "Waterfall of this run", act: () => go(href(["run", family, id, "waterfall"])) },
          { name: "Cost of this run", act: () => go(href(["run", family, id, "cost"])) },
        ]
      : [];
  const deeds: readonly Deed[] = [
    { name: "Dark or light", keys: "T", act: turn },
    { name: "Copy link", act: () => void navigator.clipboard?.writeText(location.href) },
  ];
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
        shouldFilter={sign !== "#" && sign !== ":"}
        filter={contains}
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
          {(sign === "" || sign === ">") && onRun.length > 0 && (
            <Command.Group heading="On this run">
              {onRun.map((deed) => (
                <Item key={deed.name} deed={deed} sign={sign} run={run} />
              ))}
            </Command.Group>
          )}
          {(sign === ">" || (sign === "" && words)) && (
            <Command.Group heading="Commands">
              {deeds.map((deed) => (
                <Item key={deed.name} deed={deed} sign={sign} run={run} />
              ))}
            </Command.Group>
          )}
          {sign === "" && (runs?.length ?? 0) > 0 && (
            <Command.Group heading="Runs">
              {runs?.map((each) => (
                <Command.Item
                  key={`${each.family}:${each.run}`}
                  value={`${each.title ?? ""} ${each.run} ${each.agents.join(" ")}`}
                  onSelect={() => run(() => go(runHref(each.family, each.run)))}
                >
                  <StatusGlyph status={each.status} />
                  <span className="grow cut">
                    <Text>{each.title ?? each.run}</Text>
                  </span>
                  <span className="soft">{ago(each.last_activity, now)}</span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {sign === "@" && (
            <Command.Group heading="Runs of an agent">
              {[...new Set(agents.map((each) => each.agent))].map((agent) => (
                <Command.Item key={agent} value={`@${agent}`} onSelect={() => run(() => go(href([], { agent })))}>
                  <Icon name="robot" /> <Text>{agent}</Text>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {times.length > 0 && (
            <Command.Group heading="Time">
              {times.map((deed) => (
                <Item key={deed.name} deed={deed} sign={sign} run={run} />
              ))}
            </Command.Group>
          )}
          {sign === "" && firing.length > 0 && (
            <Command.Group heading="Alerts">
              {firing.map((each) => (
                <Command.Item
                  key={each.id}
                  value={`alert ${each.rule} ${each.summary}`}
                  onSelect={() => run(() => go(href(["settings", "alerts"])))}
                >
                  <Icon name="bell" />
                  <span className="grow cut">
                    <Text>{`${each.rule}: ${each.summary}`}</Text>
                  </span>
                  <span className="soft">
                    {each.state} {ago(each.since, now)}
                  </span>
                </Command.Item>
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
          {sign === "" && (
            <Command.Group heading="Go to">
              {PLACES.map(([name, hash, keys]) => (
                <Command.Item key={name} value={name} onSelect={() => run(() => go(hash))}>
                  <Icon name={iconOf(name, hash)} /> <span className="grow">{name}</span>
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
function contains(value: string, typed: string): number {
  const name = value.toLowerCase();
  const words = typed.replace(/^[>@]/, "").toLowerCase().split(/\s+/);
  return words.every((word) => name.includes(word)) ? 1 : 0;
}

function Item({ deed, sign, run }: { deed: Deed; sign: string | undefined; run: (act: () => void) => void }) {
  return (
    <Command.Item value={`${sign}${deed.name}`} onSelect={() => run(deed.act)}>
      <Icon name="play" /> <span className="grow">{deed.name}</span>
      {deed.keys && <kbd>{deed.keys}</kbd>}
    </Command.Item>
  );
}
