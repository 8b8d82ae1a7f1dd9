/** The frame around every page: where one can go, whether we are live, and the range of time. */

import { type FormEvent, type ReactNode, type RefObject, useRef } from "react";
import { address } from "../lib/api";
import { useLive } from "../lib/live";
import { href, useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { count } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { Icon, Logo } from "./icons";
import { SavedViews } from "./saved-views";
import { Spark } from "./spark";
import { ToolsPlace } from "./tools";

const PAGES = [
  ["", "Fleet", "fleet"],
  ["inbox", "Inbox", "inbox"],
  ["insights", "Insights", "insights"],
  ["search", "Search", "search"],
  ["compare", "Compare", "compare"],
] as const;

function Place(props: { to: (typeof PAGES)[number]; page: string; waiting: number }) {
  const [to, label, icon] = props.to;
  const here = props.page === to || (to === "" && props.page === "run") || (to === "compare" && props.page === "diff");
  return (
    <a href={`#/${to}`} aria-current={here ? "page" : undefined}>
      <Icon name={icon} />
      <span className="label">{label}</span>
      {to === "inbox" && props.waiting > 0 && <span className="badge">{props.waiting}</span>}
      {to === "search" && <kbd>/</kbd>}
    </a>
  );
}

export function SideBar({ page, waiting, children }: { page: string; waiting: number; children: ReactNode }) {
  return (
    <header className="side">
      <a className="name" href="#/">
        <Logo /> tracklog
      </a>
      <nav aria-label="Pages">
        {PAGES.map((each) => (
          <Place key={each[1]} to={each} page={page} waiting={waiting} />
        ))}
      </nav>
      <SavedViews />
      <Recorder />
      <div className="foot">{children}</div>
    </header>
  );
}

/** On a phone, at the bottom of the screen. */
export function TabBar({ page, waiting, more }: { page: string; waiting: number; more: () => void }) {
  return (
    <nav className="tabbar" aria-label="Pages on a small screen">
      {PAGES.slice(0, 4).map((each) => (
        <Place key={each[1]} to={each} page={page} waiting={waiting} />
      ))}
      <button onClick={more}>
        <Icon name="keys" />
        <span className="label">More</span>
      </button>
    </nav>
  );
}

/** How far the journal goes, and how fast it grows. */
function Recorder() {
  const { connection, last } = useLive();
  const { rate, growth } = useRate(last);
  return (
    <section className="recorder" aria-label="Recorder">
      <span className={`rec ${connection}`}>
        {connection === "live" ? "Recording" : connection === "away" ? "Away" : "Connecting"}
      </span>
      <span className="soft">{rate === null ? "" : `${count(rate)} a minute`}</span>
      <Spark values={growth} shape="bars" colour="--done-fill" />
      <span className="soft num">#{count(last)}</span>
      <Witnessed last={last} />
    </section>
  );
}

/** Up to which record somebody outside this collector vouches for the chain of hashes. */
function Witnessed({ last }: { last: number }) {
  const { data } = useAnswer(address("/api/settings/checkpoints"), "seldom");
  const names = data?.witnesses.map((each) => each.name) ?? [];
  const title = names.length
    ? `${inert(names.join(", "))} vouches for records 1 to ${data?.records}; ${Math.max(last - (data?.records ?? 0), 0)} are newer.`
    : "No witness outside this collector vouches for the chain of hashes.";
  return (
    <a className={names.length ? "done" : "soft"} href={href(["settings", "witnesses"])} title={title}>
      <Icon name="shield" size={13} /> {names.length ? "chain whole" : "no witness"}
      {names.length > 0 && <span className="unseen"> witnessed to #{count(data?.records ?? 0)}</span>}
    </a>
  );
}

const [MINUTE, LOOK, SLACK] = [60_000, 3_000, 500]; // milliseconds
const SLOTS = MINUTE / LOOK;

/** Records a minute, null until two looks are far enough apart; and how many came between looks. */
function useRate(last: number): { rate: number | null; growth: (number | null)[] } {
  const seen = useRef<[number, number][]>([]);
  const now = useNow(LOOK);
  const looks = seen.current;
  if (last > 0 && looks.at(-1)?.[0] !== now) looks.push([now, last]);
  while ((looks[1]?.[0] ?? now) < now - MINUTE) looks.shift();
  const [at, first] = looks[0] ?? [now, last];
  const growth = looks.slice(1).map(([, end], n) => end - (looks[n]?.[1] ?? end));
  return {
    rate: now - at < 2 * LOOK - SLACK ? null : Math.round(((last - first) * MINUTE) / (now - at)),
    // The newest on the right; what was not watched is empty.
    growth: [...new Array<null>(SLOTS).fill(null), ...growth].slice(-SLOTS),
  };
}

/** Whether we are live, and since when not. */
function Pulse() {
  const { connection, last } = useLive();
  const now = useNow();
  const connected = useRef(now);
  if (connection === "live") connected.current = now;
  return (
    <span className={`pulse ${connection}`} title={`the journal's last record is ${last}`}>
      <span role="status">
        {connection === "away" ? "trying again" : connection}
        {connection === "away" && (
          <span aria-hidden="true">, last connected {Math.round((now - connected.current) / 1000)} s ago</span>
        )}
      </span>
    </span>
  );
}

interface TopProps {
  readonly crumbs: ReactNode;
  readonly box: RefObject<HTMLInputElement | null>;
  /** The page has a box of its own to search in. */
  readonly searches: boolean;
}

export function TopBar(props: TopProps) {
  const { query } = useRoute();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    location.hash = href(["search"], { q: props.box.current?.value ?? "" });
  };
  return (
    <section className="top" aria-label="This page">
      <div className="crumbs cut">{props.crumbs}</div>
      <Pulse />
      <ToolsPlace />
      <search className="find" hidden={props.searches}>
        <form onSubmit={submit}>
          <Icon name="search" size={14} />
          <input
            ref={props.box}
            type="search"
            key={query.get("q") ?? ""}
            defaultValue={query.get("q") ?? ""}
            aria-label="Search all texts"
            placeholder="Search all texts"
          />
        </form>
      </search>
    </section>
  );
}
