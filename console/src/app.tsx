/** The frame around every page: where one can go, whether we are live, which keys there are. */

import { lazy, memo, type RefObject, Suspense, useEffect, useRef, useState } from "react";
import type { Health } from "./lib/answers";
import { address } from "./lib/api";
import { InboxContext, isOpen } from "./lib/inbox";
import { useLive } from "./lib/live";
import { useRoute } from "./lib/route";
import { inert } from "./lib/text";
import { count } from "./lib/time";
import { useAnswer, useKeys } from "./lib/use";
import { Fleet } from "./pages/fleet";
import { Caught, Empty, Text } from "./parts/bits";
import { SideBar, TabBar, TopBar } from "./parts/frame";
import { Icon } from "./parts/icons";
import { UndoToast } from "./parts/waiting";

const search = () => import("./pages/search");
const inbox = () => import("./pages/inbox");
const run = () => import("./pages/run");
const diff = () => import("./pages/diff");
const dash = () => import("./pages/dash");
const insights = () => import("./pages/insights");
const [Search, Inbox, RunPage, DiffPage] = [lazy(search), lazy(inbox), lazy(run), lazy(diff)];
const [Dash, Insights] = [lazy(dash), lazy(insights)];

const THEME = "tracklog.theme";
const KEYS: [string, string][] = [
  ["?", "this list"],
  ["/", "search"],
  ["g f", "the fleet"],
  ["g n", "the inbox"],
  ["g i", "insights"],
  ["j k", "down and up"],
  ["Enter", "open what is marked"],
  ["f", "filter the fleet; in a run, the next failure"],
  ["s S", "sort the fleet by the next column; the other way round"],
  ["p", "pause the fleet, and go on"],
  ["1 – 6", "the views of a run"],
  ["n", "the newest record of a run, and stay there"],
  ["+ -", "closer and further away, in a timeline"],
  ["t", "dark or light"],
  ["Esc", "back, or close"],
];
const TITLES: Record<string, string> = {
  "": "Fleet",
  inbox: "Inbox",
  insights: "Insights",
  search: "Search",
  diff: "Compare",
  compare: "Compare",
  dash: "Ralph runs",
};

function themed(): string {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return localStorage.getItem(THEME) ?? (dark ? "dark" : "light");
}

export function App() {
  const { parts, query } = useRoute();
  const questions = useAnswer(address("/api/inbox"), "always"); // the title says how many wait, of a hidden tab too
  const [theme, setTheme] = useState(themed);
  const box = useRef<HTMLInputElement>(null);
  const help = useRef<HTMLDialogElement>(null);
  const waiting = (questions.data ?? []).filter(isOpen).length;
  const page = parts[0] ?? "";
  const name = parts[2] ?? query.get("q");
  const turn = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem(THEME, next);
    setTheme(next);
  };

  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${name ? `${inert(name)} · ` : ""}tracklog`;
  }, [waiting, name]);
  useEffect(() => {
    // A collector that is gone, or was upgraded meanwhile, has no page left to give.
    const timer = setTimeout(
      () => void Promise.allSettled([run(), inbox(), search(), diff(), dash(), insights()]),
      1_000,
    );
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => void import("./styles/fonts.css"), []);
  const main = useRef<HTMLElement>(null);
  // A page begins at its top; a list of its own scrolls where it must.
  useEffect(() => void main.current?.scrollTo(0, 0), [parts.join("/")]);
  const toInbox = () => {
    location.hash = "#/inbox";
    // A page that is already there is not opened again, so its first box does not get the focus by itself.
    if (page === "inbox") document.querySelector<HTMLElement>("#main textarea")?.focus();
  };
  useKeys({
    "?": () => help.current?.showModal(),
    "/": () => box.current?.focus(),
    "g f": () => (location.hash = "#/"),
    "g n": toInbox,
    "g i": () => (location.hash = "#/insights"),
    t: turn,
    Escape: () => page && page !== "run" && history.back(),
  });

  return (
    <>
      <div className="panel">
        <main id="main" ref={main} className={page === "" ? "fleet" : "page"}>
          <InboxContext value={questions}>
            <Caught key={parts.join("/")}>
              <Suspense fallback={<p className="soft">Loading…</p>}>
                <Page name={page} />
              </Suspense>
            </Caught>
          </InboxContext>
        </main>
        <TopBar crumbs={<Crumbs page={page} name={parts[2]} />} range={page === ""} box={box} />
        <Notices />
      </div>
      <SideBar page={page} waiting={waiting}>
        <button aria-label="Keys" onClick={() => help.current?.showModal()}>
          <Icon name="keys" /> Keys
        </button>
        <button aria-label={theme === "dark" ? "Use light colours" : "Use dark colours"} onClick={turn}>
          <Icon name="theme" />
        </button>
      </SideBar>
      <TabBar page={page} waiting={waiting} more={() => help.current?.showModal()} />
      <UndoToast />
      <Help box={help} turn={turn} />
    </>
  );
}

function Crumbs({ page, name }: { page: string; name: string | undefined }) {
  if (page !== "run") return <strong>{TITLES[page] ?? "tracklog"}</strong>;
  return (
    <ol>
      <li>
        <a href="#/">Fleet</a>
      </li>
      <li className="cut">
        <strong>
          <Text>{name}</Text>
        </strong>
      </li>
    </ol>
  );
}

/** Who answers; when that is another than at first, this page was made for the other. */
function useHealth(): Health | undefined {
  const { data } = useAnswer(address("/healthz"), "seldom");
  const first = useRef(data);
  first.current ??= data;
  const other = JSON.stringify(data ?? first.current) !== JSON.stringify(first.current);
  useEffect(() => {
    if (other) location.reload();
  }, [other]);
  return data;
}

/** What one must know wherever one is. */
function Notices() {
  const { mark, first, last, rejected } = useLive();
  const health = useHealth();
  return (
    <>
      {health?.demo && (
        <p className="notice demo">
          <strong>This is a demo.</strong> Every agent here is made up. <code>tracklog demo --remove</code> takes it
          away.
        </p>
      )}
      {mark === "away" && (
        <p className="notice away" role="alert">
          The collector does not answer. This page shows the state at record {count(last)}; it continues by itself.
        </p>
      )}
      {first > 1 && (
        <p className="notice">{first === 2 ? "Record 1 was" : `Records 1 to ${count(first - 1)} were`} pruned.</p>
      )}
      {rejected && (
        <p className="notice away">
          {count(rejected.count)} frames of the live stream were rejected; the last because of {inert(rejected.why)}
        </p>
      )}
    </>
  );
}

function Help({ box, turn }: { box: RefObject<HTMLDialogElement | null>; turn: () => void }) {
  return (
    <dialog ref={box} aria-label="Keys">
      <h2>Keys</h2>
      <dl className="keys">
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              {key.split(/ (?!–)(?<!– )/).map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" className="row">
        <button className="first">Close</button>
        <button type="button" onClick={turn}>
          Dark or light
        </button>
        <button
          type="button"
          onClick={() => {
            box.current?.close();
            location.hash = "#/diff";
          }}
        >
          Compare two runs
        </button>
        <a href="/licences.txt">Licences</a>
      </form>
    </dialog>
  );
}

/** Drawn again only when it is another page: what is live draws itself. */
const Page = memo(function Page({ name }: { name: string }) {
  switch (name) {
    case "":
      return <Fleet />;
    case "inbox":
      return <Inbox />;
    case "search":
      return <Search />;
    case "run":
      return <RunPage />;
    case "diff":
    case "compare":
      return <DiffPage />;
    case "insights":
      return <Insights />;
    case "dash":
      return <Dash />;
    default:
      return <Empty title="There is no such page." run={<a href="#/">all runs</a>} />;
  }
});
