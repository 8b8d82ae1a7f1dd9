/** Times and sizes as a person reads them. */

import type { RunRow } from "./answers";

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.5)
    return `${seconds < 9.95 && !Number.isInteger(seconds) ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

/** One unit only: `2 s`, `41 min`, `5 h`, `29 days`, `3 years`. */
export function briefly(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 60) return `${Math.max(Math.floor(seconds), 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  const days = Math.floor(seconds / 86400);
  return days < YEARS ? `${days} days` : `${Math.floor(days / 365.25)} years`;
}

const YEARS = 731; // days from which years are counted

export function ago(moment: string | null | undefined, now: number): string {
  const at = moment ? Date.parse(moment) : NaN;
  if (Number.isNaN(at)) return "–";
  const seconds = Math.round((now - at) / 1000);
  return seconds < 0 ? "just now" : `${briefly(seconds)} ago`;
}

const two = (value: number): string => String(value).padStart(2, "0");

function parsed(moment: string | null | undefined): Date | null {
  const at = moment ? new Date(moment) : null;
  return at && !Number.isNaN(at.getTime()) ? at : null;
}

const time = (at: Date): string => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;

/** In the viewer's zone, which is named, to the millisecond. */
export function exact(moment: string | null | undefined): string {
  const at = parsed(moment);
  if (!at) return "no time recorded";
  const east = -at.getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(east) / 60), Math.abs(east) % 60];
  const zone = `${east < 0 ? "-" : "+"}${two(hours)}:${two(minutes)}`;
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${time(at)}.${String(at.getMilliseconds()).padStart(3, "0")} ${zone}`;
}

const DAY = 86_400_000;

/** The day of a moment: `today`, `yesterday`, `Fri 13`, or `13 Nov` where that is more than a week ago. */
export function day(moment: string | null | undefined, now: number): string {
  const at = parsed(moment);
  if (!at) return "–";
  const midnight = new Date(at).setHours(0, 0, 0, 0);
  const days = Math.round((new Date(now).setHours(0, 0, 0, 0) - midnight) / DAY);
  if (days <= 0) return "today";
  if (days === 1) return "yesterday";
  const [weekday = "", month = "", date = ""] = at.toDateString().split(" ");
  return days < 7 ? `${weekday} ${Number(date)}` : `${Number(date)} ${month}`;
}

export function clock(moment: string | null | undefined): string {
  const at = parsed(moment);
  return at ? time(at) : "–";
}

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Three digits at most, and what they stand for. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  for (const [size, name] of [
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "K"],
  ] as const)
    if (value >= size * 0.9995) return `${Number((value / size).toPrecision(3))}${name}`;
  return String(Math.round(value));
}

/** Bytes, to three digits. */
export function size(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), 0), units.length - 1);
  return `${Number((bytes / 1000 ** power).toPrecision(3))} ${units[power]}`;
}

export function money(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return `$${short(value)}`;
  const [whole = "", part] = value.toFixed(value !== 0 && Math.abs(value) < 0.1 ? 4 : 2).split(".");
  return `$${count(Number(whole))}.${part}`;
}

/** What a run cost: reported and by list prices together, ≥ or ≤ where it is a bound, ~ where it was computed. */
type Spent = Pick<RunRow, "cost_usd"> & Partial<Pick<RunRow, "computed_usd">>;

/** What was reported and what was computed, together. */
export const spentBy = (row: Spent): number => (row.cost_usd ?? 0) + (row.computed_usd ?? 0);

export function cost(
  row: Spent & { readonly lower_bound?: boolean | null; readonly upper_bound?: boolean | null },
): string {
  const computed = row.computed_usd ?? null;
  if (row.cost_usd === null && computed === null) return "–";
  const bound = row.lower_bound ? "≥ " : row.upper_bound ? "≤ " : "";
  return `${bound}${computed === null ? "" : "~"}${money(spentBy(row))}`;
}

export function percent(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? "–" : `${Number((value * 100).toFixed(digits))} %`;
}
