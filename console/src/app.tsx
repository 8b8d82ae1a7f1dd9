/** The frame around every page: where one can go, whether we are live, which keys there are. */

import { lazy, memo, type RefObject, Suspense, useCallback, useEffect, useRef, useState } from "react";
import type { Health } from "./lib/answers";
import { address } from "./lib/api";
import { shown } from "./lib/fleet";
import { InboxContext, isOpen } from "./lib/inbox";
import { useLive } from "./lib/live";
import { go, useRoute } from "./lib/route";
import { inert } from "./lib/text";
import { count } from "./lib/time";
import { useAnswer, useKeys } from "./lib/use";
import { Fleet } from "./pages/fleet";
import { Caught, Empty } from "./parts/bits";
import { SideBar, TabBar, TopBar } from "./parts/frame";
import { Icon } from "./parts/icons";
import { KeyList } from "./parts/key-list";
import { Notifier } from "./parts/notify";
import { AboutPlace, CrumbsPlace } from "./parts/tools";
import { UndoToast } from "./parts/waiting";

const search = () => import("./pages/search");
const inbox = () => import("./pages/inbox");
const run = () => import("./pages/run");
const compare = () => import("./pages/compare");
const dash = () => import("./pages/dash");
const insights = () => import("./pages/insights");
const settings = () => import("./pages/settings");
const palette = () => import("./parts/palette");
const [Search, Inbox, RunPage, Compare] = [lazy(search), lazy(inbox), lazy(run), lazy(compare)];
const [Dash, Insights, Settings, Palette] = [lazy(dash), lazy(insights), lazy(settings), lazy(palette)];

const THEME = "tracklog.theme";
const TITLES: Record<string, string> = {
  "": "Fleet",
  inbox: "Inbox",
  insights: "Insights",
  search: "Search",
  diff: "Compare",
  compare: "Compare",
  dash: "Ralph runs",
  settings: "Settings",
};

/** Pages that fill the panel to its edges. */
const MAINS: Record<string, string> = {
  "": "fleet",
  run: "run-main",
  inbox: "inbox-main",
  search: "search-main",
  settings: "settings-main",
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
  const place = (page === "run" ? parts.slice(0, 3) : page === "inbox" ? [page] : parts).join("/"); // its tabs are one page
  const turn = useCallback(
    () =>
      setTheme((old) => {
        const next = old === "dark" ? "light" : "dark";
        localStorage.setItem(THEME, next);
        return next;
      }),
    [],
  );

  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${name ? `${inert(name)} · ` : ""}tracklog`;
  }, [waiting, name]);
  useEffect(() => {
    // A collector that is gone, or was upgraded meanwhile, has no page left to give.
    const timer = setTimeout(
      () => void Promise.allSettled([run(), inbox(), search(), compare(), dash(), insights(), settings(), palette()]),
      1_000,
    );
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => void import("./styles/fonts.css"), []);
  const main = useRef<HTMLElement>(null);
  // A page begins at its top; a list of its own scrolls where it must.
  useEffect(() => void main.current?.scrollTo(0, 0), [place]);
  const toInbox = () => {
    location.hash = "#/inbox";
    // A page that is already there is not opened again, so its first box does not get the focus by itself.
    if (page === "inbox") document.querySelector<HTMLElement>("#main textarea")?.focus();
  };
  const keys = {
    "?": () => help.current?.showModal(),
    "/": () => (page === "search" ? document.querySelector<HTMLElement>(".search-field input") : box.current)?.focus(),
    "g f": () => go("#/"),
    "g n": toInbox,
    "g i": () => go("#/insights"),
    "g s": () => go("#/settings"),
    t: turn,
    Escape: () => void (page && page !== "run" && history.back()),
  };
  useKeys(keys, "frame");
  const [asking, ask] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "k" || !(event.metaKey || event.ctrlKey)) return;
      event.preventDefault();
      ask(true);
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);

  return (
    <>
      <div className="panel">
        <main id="main" ref={main} className={MAINS[page] ?? "page"}>
          <InboxContext value={questions}>
            <Notifier />
            <Caught key={place}>
              <Suspense fallback={<p className="soft">Loading…</p>}>
                <Page name={page} theme={theme} turn={turn} />
              </Suspense>
            </Caught>
          </InboxContext>
        </main>
        <TopBar crumbs={<Crumbs page={page} />} box={box} searches={page === "search"} />
        <Notices />
      </div>
      <SideBar page={page} waiting={waiting}>
        <a href="#/settings" aria-current={page === "settings" ? "page" : undefined}>
          <Icon name="settings" /> <span className="label">Settings</span>
        </a>
        <button aria-label={theme === "dark" ? "Use light colours" : "Use dark colours"} onClick={turn}>
          <Icon name="theme" />
        </button>
      </SideBar>
      <TabBar page={page} waiting={waiting} more={() => help.current?.showModal()} />
      <UndoToast />
      <Help box={help} turn={turn} />
      {asking && (
        <Suspense>
          <Palette close={() => ask(false)} turn={turn} />
        </Suspense>
      )}
    </>
  );
}

function Crumbs({ page }: { page: string }) {
  const { query } = useRoute();
  const projects = query.getAll("project").map((each) => shown("project", each));
  if (page !== "run")
    return (
      <>
        <strong>{TITLES[page] ?? "tracklog"}</strong>
        {page === "" && <span className="soft about-page"> {inert(projects.join(", ")) || "all projects"}</span>}{" "}
        <AboutPlace />
      </>
    );
  return (
    <CrumbsPlace>
      <li>
        <a href="#/">Fleet</a>
      </li>
    </CrumbsPlace>
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
  const { connection, first, last, rejected } = useLive();
  const health = useHealth();
  return (
    <section className="notices" aria-label="Notices">
      {health?.demo && (
        <p className="notice demo">
          <strong>This is a demo.</strong> Every agent here is invented. <code>tracklog demo --remove</code> removes it.
        </p>
      )}
      {connection === "away" && (
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
    </section>
  );
}

function Help({ box, turn }: { box: RefObject<HTMLDialogElement | null>; turn: () => void }) {
  return (
    <dialog ref={box} aria-label="Keys">
      <h2>Keys</h2>
      <KeyList />
      <form method="dialog" className="row">
        <button className="first">Close</button>
        <button type="button" onClick={turn}>
          Dark or light
        </button>
        {(
          [
            ["#/compare", "Compare two runs"],
            ["#/settings", "Settings"],
          ] as const
        ).map(([hash, words]) => (
          <button
            key={hash}
            type="button"
            onClick={() => {
              box.current?.close();
              go(hash);
            }}
          >
            {words}
          </button>
        ))}
        <a href="/licences.txt">Licences</a>
      </form>
    </dialog>
  );
}

/** Drawn again only when it is another page: what is live draws itself. */
const Page = memo(function Page({ name, theme, turn }: { name: string; theme: string; turn: () => void }) {
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
      return <Compare />;
    case "insights":
      return <Insights />;
    case "settings":
      return <Settings theme={theme} turn={turn} />;
    case "dash":
      return <Dash />;
    default:
      return <Empty title="There is no such page." run={<a href="#/">all runs</a>} />;
  }
});
