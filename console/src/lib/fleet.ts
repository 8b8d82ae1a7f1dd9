/** What the address says of the fleet: filters, order, groups and columns; and the question it becomes. */

import type { BoardAnswer } from "./answers";
import { address } from "./api";
import { rangeOf } from "./range";

export const HELD = 100; // runs of one answer

/** The facets by their names in the address; an older address says `dialect` for `source`. */
export const FACETS = {
  status: "status",
  project: "project",
  branch: "branch",
  model: "model",
  agent: "agent",
  source: "dialect",
  outcome: "outcome",
  tag: "tag",
  seen: "seen",
} as const;
export type FacetKey = keyof typeof FACETS;
export const FACET_KEYS = Object.keys(FACETS) as FacetKey[];

type Asked = NonNullable<NonNullable<Parameters<typeof address<"/api/board">>[1]>>;
export type Sort = NonNullable<Asked["sort"]>;
export type Grouping = NonNullable<Asked["group"]>;
export type Dir = NonNullable<Asked["dir"]>;

export const GROUPINGS: readonly Grouping[] = ["attention", "status", "project", "branch", "model", "none"];

export interface Column {
  readonly key: string;
  readonly label: string;
  readonly sort: Sort;
  /** It stands to the right, as figures do. */
  readonly figure?: true;
  /** It is shown only where somebody asked for it. */
  readonly extra?: true;
}

export const COLUMNS: readonly Column[] = [
  { key: "title", label: "Run", sort: "title" },
  { key: "id", label: "Id", sort: "id", extra: true },
  { key: "activity", label: "Activity", sort: "failures" },
  { key: "project", label: "Project, branch", sort: "project" },
  { key: "model", label: "Model", sort: "model" },
  { key: "source", label: "Source", sort: "source", extra: true },
  { key: "agents", label: "Agents", sort: "agents", extra: true },
  { key: "outcome", label: "Outcome", sort: "outcome", extra: true },
  { key: "score", label: "Score", sort: "score", figure: true, extra: true },
  { key: "calls", label: "Calls", sort: "calls", figure: true },
  { key: "tokens", label: "Tokens", sort: "tokens", figure: true },
  { key: "cost", label: "Cost", sort: "cost", figure: true },
  { key: "took", label: "Took", sort: "took", figure: true },
  { key: "active", label: "Active", sort: "activity", figure: true },
];

const TEXTS: readonly Sort[] = ["title", "id", "project", "branch", "model", "source", "agents", "outcome", "need"];

/** The direction of a sort where the address names none. */
export const natural = (sort: Sort): Dir => (TEXTS.includes(sort) ? "asc" : "desc");

export interface FleetView {
  readonly facets: Record<FacetKey, readonly string[]>;
  readonly since: string;
  readonly until: string;
  readonly text: string;
  /** The range of a person's score, such as `0.5..`. */
  readonly score: string;
  readonly sort: Sort;
  readonly dir: Dir;
  readonly group: Grouping;
  readonly cols: readonly string[];
}

export function fleetView(query: URLSearchParams): FleetView {
  const given = (key: FacetKey) =>
    [...query.getAll(key), ...(key === "source" ? query.getAll("dialect") : [])].filter(Boolean);
  const named = query.get("sort") as Sort | null;
  const sort = COLUMNS.find((each) => each.sort === named)?.sort ?? "activity";
  const group = GROUPINGS.find((each) => each === query.get("group")) ?? "attention";
  const dir = query.get("dir");
  return {
    facets: Object.fromEntries(FACET_KEYS.map((key) => [key, given(key)])) as Record<FacetKey, string[]>,
    ...rangeOf(query),
    text: query.get("text") ?? "",
    score: query.get("score") ?? "",
    sort,
    dir: dir === "asc" || dir === "desc" ? dir : natural(sort),
    group,
    cols: query.getAll("cols"),
  };
}

/** The groups that are closed: those that a person closed, and failures that were seen, unless they are asked for. */
export function closedGroups(view: FleetView, turned: readonly string[] = []): string[] {
  const folded = view.group === "attention" && !view.facets.seen.length && !turned.includes("seen") ? ["seen"] : [];
  return [...turned.filter((each) => view.group !== "attention" || each !== "seen"), ...folded];
}

/** The filters of a view, as the collector is asked for them. */
function filterOf(view: FleetView) {
  const facets = Object.fromEntries(FACET_KEYS.map((key) => [FACETS[key], view.facets[key]]));
  return { ...facets, since: view.since, until: view.until, text: view.text, score: view.score };
}

/** The address of all failures of a view that nobody has seen. */
export function unseenAddress(view: FleetView) {
  const status = view.facets.status.length ? view.facets.status : ["failed", "lost"];
  return address("/api/board", { ...filterOf(view), status, seen: ["no"], limit: 10_000, group: "attention" } as Asked);
}

/** The address of the part of the list that begins at `after`; the collector filters and orders. */
export function boardAddress(view: FleetView, after: number, closed = closedGroups(view)) {
  return address("/api/board", {
    limit: HELD,
    group: view.group,
    sort: view.sort,
    ...(view.dir === natural(view.sort) ? {} : { dir: view.dir }),
    ...(after ? { after } : {}),
    ...filterOf(view),
    closed,
  });
}

/** The filters that are on, as words, and what takes each away. */
export function filtersOf(view: FleetView): { label: string; drop: Record<string, string | readonly string[]> }[] {
  const chips: { label: string; drop: Record<string, string | readonly string[]> }[] = [];
  for (const key of FACET_KEYS)
    for (const value of view.facets[key]) {
      const rest = view.facets[key].filter((each) => each !== value);
      const [not, name] = value.startsWith("!") ? ["not ", value.slice(1)] : ["", value];
      const words = name === "(none)" ? `no ${key}` : shown(key, name);
      chips.push({
        label: `${not}${words}`,
        drop: { [key]: rest, ...(key === "source" ? { dialect: [] } : {}) },
      });
    }
  if (view.score) chips.push({ label: `score ${view.score.replace("..", " to ").trim()}`, drop: { score: "" } });
  if (view.text) chips.push({ label: `“${view.text}”`, drop: { text: "" } });
  if (view.since || view.until) {
    const lately = /^-\d+[smhdw]$/.test(view.since) && !view.until;
    const label = lately ? `active in ${view.since.slice(1).replace(/(\D)$/, " $1")}` : "range of time";
    chips.push({ label, drop: { since: "", until: "", within: "" } });
  }
  return chips;
}

/** A value of a facet as it is read: of a folder its name. */
export function shown(key: string, value: string): string {
  if (key === "seen") return value === "yes" ? "seen" : "not seen";
  return key === "project" ? (value.split(/[\\/]/).filter(Boolean).pop() ?? value) : value;
}

/** Of the filters that are on, one without which there would be runs; null where none alone is to blame. */
export function culprit(view: FleetView, board: BoardAnswer): FacetKey | null {
  const on = FACET_KEYS.filter((key) => view.facets[key].length);
  return (
    on.find((key) => board.facets.find((each) => each.name === FACETS[key])?.values.some((value) => value.count)) ??
    null
  );
}
