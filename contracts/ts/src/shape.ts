/** What the shapes of several dialects are made of. */

import * as z from "zod";

/** A string that matches the pattern and names a moment that exists. */
export function moment(pattern: RegExp) {
  return z
    .string()
    .regex(pattern, { abort: true })
    .refine(exists, { error: "no real date-time: does that day and time exist?" })
    .meta({ format: "date-time" });
}

/** UTC, RFC 3339, three fraction digits and Z. */
export const UtcMillis = moment(
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/,
);
export const Count = z.int().min(0);
export const Seconds = z.number().min(0);
export const Share = z.number().min(0).max(1);
export const Name = z.string().min(1);

/** A JSON object of any content. */
export const JsonObject = z.record(z.string(), z.unknown());

const PARTS =
  /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:Z|([+-])(\d{2}):(\d{2}))$/;
const DAY = 24 * 60;

/** Whether the day and the time of an RFC 3339 string exist; a leap second is the last of a UTC day. */
function exists(at: string): boolean {
  const parts = PARTS.exec(at);
  if (!parts) return false;
  const number = (part: number) => Number(parts[part] ?? 0);
  const [hour, minute, second] = [number(4), number(5), number(6)];
  const [ahead, past] = [number(8), number(9)];
  if (hour > 23 || minute > 59 || second > 60 || ahead > 23 || past > 59) return false;
  const offset = (ahead * 60 + past) * (parts[7] === "-" ? -1 : 1);
  const utc = (hour * 60 + minute - offset + DAY) % DAY;
  return isDay(number(1), number(2), number(3)) && (second < 60 || utc === DAY - 1);
}

function isDay(year: number, month: number, day: number): boolean {
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return day >= 1 && day <= (days[month - 1] ?? 0);
}
