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
export const UtcMillis = moment(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/);
export const Count = z.int().min(0);
export const Seconds = z.number().min(0);
export const Share = z.number().min(0).max(1);
export const Name = z.string().min(1);

/** A JSON object of any content. */
export const JsonObject = z.record(z.string(), z.unknown());

/** A list in which nothing stands twice. */
export function unique<Item extends z.ZodType>(list: z.ZodArray<Item>) {
  return list
    .refine((items) => new Set(items).size === items.length, { error: "an item stands twice" })
    .meta({ uniqueItems: true });
}

/** A string that is none of the words that have a shape of their own. */
export function otherThan(words: readonly string[], string = z.string()) {
  return (
    string
      // It aborts, else a union would take this branch for the one that was meant.
      .refine((word) => !words.includes(word), { error: "has a shape of its own", abort: true })
      .meta({ not: { enum: [...words] } })
  );
}

/** A shape with keys of which some stand for each other: one of each group must be there. */
export function either<Shape extends z.ZodRawShape>(
  shape: z.ZodObject<Shape, z.core.$loose>,
  ...groups: readonly (readonly [string, ...string[]])[]
) {
  return shape
    .superRefine((body, { addIssue }) => {
      for (const keys of groups)
        if (!keys.some((key) => Object.hasOwn(body, key)))
          addIssue({ code: "custom", path: [keys[0]], message: `${keys.join(" or ")} is missing` });
    })
    .meta({ allOf: groups.map((keys) => ({ anyOf: keys.map((key) => ({ required: [key] })) })) });
}

const PARTS = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:Z|([+-])(\d{2}):(\d{2}))$/;
const DAY = 24 * 60;

/** Whether the day and the time of an RFC 3339 string exist; a leap second is the last of a UTC day. */
export function exists(at: string): boolean {
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
