/** Axes: round numbers for figures, midnights and full hours for time. */

import type { Series } from "../lib/answers";
import { duration, money, percent, short } from "../lib/time";

const ROUND = [1, 2, 2.5, 5, 10];
const SECONDS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 36_000, 86_400];
const TICKS = 4;

/** From 0 to a round number that is not less than the greatest value, in four or five steps. */
export function ticks(most: number, unit: Series["unit"]): number[] {
  const whole = unit !== "usd" && unit !== "share" && unit !== "seconds";
  const rough = Math.max(most, whole ? 1 : 1e-6) / TICKS;
  const step = Math.max(stepOf(rough, unit), whole ? 1 : 0);
  const count = Math.max(Math.ceil(most / step - 1e-9), 1);
  return Array.from({ length: count + 1 }, (_, n) => Number((n * step).toPrecision(12)));
}

function stepOf(rough: number, unit: Series["unit"]): number {
  if (unit === "seconds" && rough >= 1)
    return SECONDS.find((each) => each >= rough) ?? Math.ceil(rough / 86_400) * 86_400;
  const power = 10 ** Math.floor(Math.log10(rough));
  const whole = unit !== "usd" && unit !== "share" && unit !== "seconds";
  const steps = ROUND.filter((each) => !whole || Number.isInteger(each * power) || power < 1);
  return (steps.find((each) => each * power >= rough * 0.9999) ?? 10) * power;
}

/** A figure beside an axis, with its unit. */
export function tick(value: number, unit: Series["unit"]): string {
  switch (unit) {
    case "usd":
      return value === 0
        ? "$0"
        : value >= 10 && Number.isInteger(value)
          ? `$${short(value)}`
          : money(value).replace(/(\.\d\d)(\d*?)0+$/, "$1$2");
    case "share":
      return percent(value, 1);
    case "seconds":
      return value === 0 ? "0" : duration(value).replace(/ 0 (s|min)$/, "");
    default:
      return short(value);
  }
}

export interface TimeTick {
  /** Seconds since 1970. */
  readonly at: number;
  readonly label: string;
}

const MINUTES = [1, 2, 5, 10, 15, 30]; // of an hour, and seconds of a minute
const HOURS = [1, 2, 3, 4, 6, 12];
const DAYS = [1, 2, 3, 7, 14];
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];
type Step = "second" | "minute" | "hour" | "day" | "month";
const WEEKDAYS = "Sun Mon Tue Wed Thu Fri Sat".split(" ");
export const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (value: number): string => String(value).padStart(2, "0");

/** Points on an axis of time: at most so many, at full hours, midnights or first days of a month. */
export function timeTicks(from: number, to: number, most: number, brief = false): TimeTick[] {
  const length = to - from;
  const seconds = MINUTES.find((each) => length / each <= most);
  if (seconds !== undefined) return every(from, to, seconds, "second", brief);
  const minutes = MINUTES.find((each) => length / (each * MINUTE) <= most);
  if (minutes !== undefined) return every(from, to, minutes, "minute", brief);
  const hours = HOURS.find((each) => length / (each * HOUR) <= most);
  if (hours !== undefined && length < 2 * DAY) return every(from, to, hours, "hour", brief);
  const days = DAYS.find((each) => length / (each * DAY) <= most);
  if (days !== undefined) return every(from, to, days, "day", brief);
  return every(from, to, Math.ceil(length / (30 * DAY) / most), "month", brief);
}

function every(from: number, to: number, step: number, unit: Step, brief: boolean): TimeTick[] {
  const at = new Date(from * 1000);
  if (unit === "second") at.setSeconds(Math.floor(at.getSeconds() / step) * step, 0);
  else at.setMinutes(unit === "minute" ? Math.floor(at.getMinutes() / step) * step : 0, 0, 0);
  if (unit === "hour") at.setHours(Math.floor(at.getHours() / step) * step);
  else if (unit !== "minute" && unit !== "second") at.setHours(0);
  if (unit === "month") at.setDate(1);
  const found: TimeTick[] = [];
  for (; at.getTime() / 1000 < to; ) {
    const seconds = at.getTime() / 1000;
    if (seconds >= from) found.push({ at: seconds, label: labelOf(at, unit, brief) });
    if (unit === "second") at.setSeconds(at.getSeconds() + step);
    else if (unit === "minute") at.setMinutes(at.getMinutes() + step);
    else if (unit === "hour") at.setHours(at.getHours() + step);
    else if (unit === "day") at.setDate(at.getDate() + step);
    else at.setMonth(at.getMonth() + step);
  }
  return found;
}

function labelOf(at: Date, unit: Step, brief: boolean): string {
  if (unit === "second") return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (unit === "minute" || unit === "hour") return `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (unit === "month") return MONTHS[at.getMonth()] ?? "";
  const day = WEEKDAYS[at.getDay()] ?? "";
  return brief ? day : `${day} ${at.getDate()}`;
}

/** A bucket as a person reads it: its day, and from when until when. */
export function spanText(from: number, to: number): string {
  const [begin, end] = [new Date(from * 1000), new Date(to * 1000)];
  const day = (at: Date) => `${WEEKDAYS[at.getDay()]} ${at.getDate()} ${MONTHS[at.getMonth()]}`;
  const time = (at: Date) => `${two(at.getHours())}:${two(at.getMinutes())}`;
  const midnights = time(begin) === "00:00" && time(end) === "00:00";
  if (midnights && to - from < 1.2 * DAY) return day(begin);
  if (midnights) return `${day(begin)} – ${day(new Date(to * 1000 - 1))}`;
  const sameDay = day(begin) === day(new Date(to * 1000 - 1));
  return sameDay
    ? `${day(begin)}, ${time(begin)}–${time(end)}`
    : `${day(begin)} ${time(begin)} – ${day(end)} ${time(end)}`;
}
