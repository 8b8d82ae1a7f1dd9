/** The frame around every page: where one can go, whether we are live, which keys there are. */

import { type FormEvent, lazy, memo, type RefObject, Suspense, useEffect, useRef, useState } from "react";
import type { Health } from "./lib/answers";
import { address } from "./lib/api";
import { InboxContext, isOpen } from "./lib/inbox";
import { useLive } from "./lib/live";
import { href, useRoute } from "./lib/route";
import { inert } from "./lib/text";
import { count } from "./lib/time";
import { useAnswer, useKeys } from "./lib/use";
import { Fleet } from "./pages/fleet";
import { Caught, Empty } from "./parts/bits";

const search = () => import("./pages/search");
const inbox = () => import("./pages/inbox");
const run = () => import("./pages/run");
const diff = () => import("./pages/diff");
const dash = () => import("./pages/dash");
const [Search, Inbox, RunPage, DiffPage] = [lazy(search), lazy(inbox), lazy(run), lazy(diff)];
const Dash = lazy(dash);

const THEME = "tracklog.theme";
const KEYS: [string, string][] = [
  ["?", "this list"],
  ["/", "search"],
  ["g", "the fleet"],
  ["i", "the inbox"],
  ["j k", "down and up"],
  ["Enter", "open what is marked"],
  ["1 – 6", "the views of a run"],
  ["n", "the newest record of a run, and stay there"],
  ["f", "the next failure in a run"],
  ["+ -", "closer and further away, in a timeline"],
  ["t", "dark or light"],
  ["Esc", "back, or close"],
];

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
    const timer = setTimeout(() => void Promise.allSettled([run(), inbox(), search(), diff(), dash()]), 1_000);
    return () => clearTimeout(timer);
  }, []);
  useKeys({
    "?": () => help.current?.showModal(),
    "/": () => box.current?.focus(),
    g: () => (location.hash = "#/"),
    i: () => {
      location.hash = "#/inbox";
      // A page that is already there is not opened again, so its first box does not get the focus by itself.
      if (page === "inbox") document.querySelector<HTMLElement>("#main textarea")?.focus();
    },
    t: turn,
    Escape: () => page && page !== "run" && history.back(),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    location.hash = href(["search"], { q: box.current?.value ?? "" });
  };

  return (
    <>
      <main id="main">
        <InboxContext value={questions}>
          <Caught key={parts.join("/")}>
            <Suspense fallback={<p className="soft">Loading…</p>}>
              <Page name={page} />
            </Suspense>
          </Caught>
        </InboxContext>
      </main>
      <header className="bar">
        <a className="name" href="#/">
          tracklog
        </a>
        <nav aria-label="Pages">
          <a href="#/" aria-current={page === "" ? "page" : undefined}>
            Fleet
          </a>
          <a href="#/inbox" aria-current={page === "inbox" ? "page" : undefined}>
            Inbox{waiting > 0 && <span className="badge">{waiting}</span>}
          </a>
        </nav>
        <search>
          <form onSubmit={submit}>
            <input
              ref={box}
              type="search"
              key={query.get("q") ?? ""}
              defaultValue={query.get("q") ?? ""}
              aria-label="Search all texts"
              placeholder="Search all texts  /"
            />
          </form>
        </search>
        <div className="right">
          <Pulse />
          <button aria-label="Keys" onClick={() => help.current?.showModal()}>
            ?
          </button>
          <button aria-label={theme === "dark" ? "Use light colours" : "Use dark colours"} onClick={turn}>
            {theme === "dark" ? "☀" : "☾"}
          </button>
        </div>
      </header>
      <Notices />
      <Help box={help} />
    </>
  );
}

/** Whether we are live, and how far. */
function Pulse() {
  const { mark, last } = useLive();
  return (
    <span className={`pulse ${mark}`} title={`the journal's last record is ${last}`}>
      <span role="status">{mark}</span>
      {mark === "live" && <span className="num"> {count(last)}</span>}
    </span>
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

function Help({ box }: { box: RefObject<HTMLDialogElement | null> }) {
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
      <form method="dialog">
        <button className="first">Close</button>
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
      return <DiffPage />;
    case "dash":
      return <Dash />;
    default:
      return <Empty title="There is no such page." run={<a href="#/">all runs</a>} />;
  }
});
