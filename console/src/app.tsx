/** The frame around every page: where one can go, whether we are live, which keys there are. */

import { lazy, Suspense, useEffect, useRef, useState, type FormEvent } from "react";
import type { Question } from "./lib/api";
import { useLive } from "./lib/live";
import { href, useRoute } from "./lib/route";
import { useAnswer, useKeys } from "./lib/use";
import { Empty } from "./parts/bits";
import { Fleet } from "./pages/fleet";
import { Inbox, open } from "./pages/inbox";
import { Search } from "./pages/search";

const RunPage = lazy(() => import("./pages/run"));
const DiffPage = lazy(() => import("./pages/diff"));

const THEME = "tracklog.theme";
const KEYS: [string, string][] = [
  ["?", "this list"],
  ["/", "search"],
  ["g", "the fleet"],
  ["i", "the inbox"],
  ["j k", "down and up"],
  ["Enter", "open what is marked"],
  ["1 – 6", "the views of a run"],
  ["n", "the newest record of a run"],
  ["t", "dark or light"],
  ["Esc", "back, or close"],
];

function themed(): string {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return localStorage.getItem(THEME) ?? (dark ? "dark" : "light");
}

export function App() {
  const { parts, query } = useRoute();
  const live = useLive();
  const inbox = useAnswer<Question[]>("/api/inbox");
  const health = useAnswer<{ demo?: boolean }>("/healthz", false);
  const [theme, setTheme] = useState(themed);
  const box = useRef<HTMLInputElement>(null);
  const help = useRef<HTMLDialogElement>(null);
  const waiting = open(inbox.data ?? []).length;
  const page = parts[0] ?? "";

  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
  }, [theme]);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}tracklog`;
  }, [waiting]);
  useKeys({
    "?": () => help.current?.showModal(),
    "/": () => box.current?.focus(),
    g: () => (location.hash = "#/"),
    i: () => (location.hash = "#/inbox"),
    t: () => setTheme(theme === "dark" ? "light" : "dark"),
    Escape: () => {
      if (document.activeElement === box.current) box.current?.blur();
      else if (page) history.back();
    },
  });
  const search = (event: FormEvent) => {
    event.preventDefault();
    location.hash = href(["search"], { q: box.current?.value ?? "" });
  };

  return (
    <>
      <main id="main">
        <Suspense fallback={<p className="soft">Loading…</p>}>{shown(page)}</Suspense>
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
        <form onSubmit={search} role="search">
          <input
            ref={box}
            type="search"
            key={query.get("q") ?? ""}
            defaultValue={query.get("q") ?? ""}
            aria-label="Search everything that was said"
            placeholder="Search everything that was said  /"
          />
        </form>
        <div className="right">
          <span className={`pulse ${live.mark}`} role="status">
            {live.mark === "live" ? `live · ${live.last.toLocaleString()}` : live.mark}
          </span>
          <button aria-label="Keys" onClick={() => help.current?.showModal()}>
            ?
          </button>
          <button
            aria-label={theme === "dark" ? "Use light colours" : "Use dark colours"}
            onClick={() => setTheme(theme === "dark" ? "light" : "dark")}
          >
            {theme === "dark" ? "☀" : "☾"}
          </button>
        </div>
      </header>
      {health.data?.demo && (
        <p className="notice demo">
          <strong>This is a demo.</strong> Every agent here is made up.{" "}
          <code>tracklog demo --remove</code> takes it away.
        </p>
      )}
      {live.mark === "away" && (
        <p className="notice away" role="alert">
          The collector does not answer. What you see is as of record {live.last}; it goes on by
          itself.
        </p>
      )}
      {live.gap && (
        <p className="notice">
          Records {live.gap.after + 1} to {live.gap.next - 1} are not kept any more.
        </p>
      )}
      <dialog ref={help} aria-label="Keys">
        <h2>Keys</h2>
        <dl className="keys">
          {KEYS.map(([key, does]) => (
            <div key={key} style={{ display: "contents" }}>
              <dt>
                {key.split(/ (?!–)(?<!– )/).map((one) => (
                  <kbd key={one}>{one}</kbd>
                ))}
              </dt>
              <dd style={{ margin: 0 }}>{does}</dd>
            </div>
          ))}
        </dl>
        <form method="dialog">
          <button className="first">Close</button>
        </form>
      </dialog>
    </>
  );
}

function shown(page: string) {
  switch (page) {
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
    default:
      return <Empty title="There is no such page." run="#/" />;
  }
}
