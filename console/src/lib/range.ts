/** Ranges of time in the address: relative ones stay relative. */

export const RANGES = [
  ["-1h", "1 h"],
  ["-24h", "24 h"],
  ["-7d", "7 d"],
  ["-30d", "30 d"],
] as const;

export interface Range {
  readonly since: string;
  readonly until: string;
}

/** The range of an address; an older address says `within=24h` for `since=-24h`. */
export function rangeOf(query: URLSearchParams): Range {
  const within = query.get("within") ?? "";
  return {
    since: query.get("since") ?? (within && within !== "all" ? `-${within}` : ""),
    until: query.get("until") ?? "",
  };
}

/** The day before today, in the viewer's zone. */
export function yesterday(now: number): Range {
  const midnight = (days: number) => {
    const day = new Date(now);
    return new Date(day.getFullYear(), day.getMonth(), day.getDate() - days).toISOString();
  };
  return { since: midnight(1), until: midnight(0) };
}

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** A point of a range in milliseconds; NaN where it is none. */
export function pointOf(text: string, now: number): number {
  if (text === "now") return now;
  const relative = /^-?(\d{1,6})([smhdw])$/.exec(text);
  if (relative) return now - Number(relative[1]) * (UNITS[relative[2] ?? ""] ?? 0) * 1000;
  return Date.parse(text);
}

/** A time of day, as `14:05`, on the day of a run on which it was recorded; in the viewer's zone. */
export function clockOn(begin: string, end: string, time: string): number {
  const [hours = 0, minutes = 0, seconds = 59] = time.split(":").map(Number);
  const [first, last] = [new Date(begin), Date.parse(end)];
  const on = (days: number) =>
    new Date(first.getFullYear(), first.getMonth(), first.getDate() + days, hours, minutes, seconds, 999).getTime();
  for (let day = 0; on(day) <= last; day++) if (on(day) >= first.getTime()) return on(day);
  return on(0);
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (value: number): string => String(value).padStart(2, "0");

function spelled(at: number): string {
  const day = new Date(at);
  return `${day.getDate()} ${MONTHS[day.getMonth()]} ${two(day.getHours())}:${two(day.getMinutes())}`;
}

/** A range as a person reads it, in the viewer's zone. */
export function rangeText({ since, until }: Range, now: number): string {
  if (!since && !until) return "All time";
  const [from, to] = [pointOf(since, now), pointOf(until, now)];
  const end = !until || until === "now" ? "now" : Number.isNaN(to) ? until : spelled(to);
  return `${since ? (Number.isNaN(from) ? since : spelled(from)) : "the beginning"} – ${end}`;
}
