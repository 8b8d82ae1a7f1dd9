/** Answers of a collector: how one is read, and whether it acknowledges the lines that were sent. */

import type { IncomingMessage } from "node:http";

/** The header that only a collector sends, and the version of the protocol that is understood here. */
const PROTOCOL_HEADER = "tracklog-protocol";
export const PROTOCOL = "1";
const ANSWER_BYTES = 64 << 20;
/** Statuses of the collector that will pass: the same lines are accepted later. */
export const PASSING: readonly number[] = [408, 425, 429];

export interface Answer {
  readonly status: number;
  readonly body: string;
  /** Whether the body is valid UTF-8. */
  readonly isText: boolean;
  /** How many seconds to wait before the next request. */
  readonly pause: number;
  /** The version of the protocol; only a collector names it. */
  readonly version: string;
}

/** Nothing was acknowledged. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
  readonly pause: number;
  readonly status: number;
  readonly isOurs: boolean;

  constructor(why: string, pause = 0, status = 0, isOurs = false) {
    super(why);
    this.pause = pause;
    this.status = status;
    this.isOurs = isOurs;
  }

  /** Whether the collector itself says that its answer will be the same next time. */
  get isRefusal(): boolean {
    const { status } = this;
    return this.isOurs && status >= 400 && status < 500 && !PASSING.includes(status);
  }
}

export interface Report {
  readonly refused: number;
  readonly verdicts?: unknown;
  readonly checkpoint?: unknown;
}

/** The report on the lines that were sent; undefined if the answer does not acknowledge them. */
export function reportOf({ status, version, body, isText }: Answer, sent: number): Report | undefined {
  if (status !== 200 || version !== PROTOCOL || !isText) return undefined;
  let report: Record<string, unknown> | null;
  try {
    report = JSON.parse(body) as Record<string, unknown> | null;
  } catch {
    return undefined;
  }
  const counts = [report?.accepted, report?.duplicate, report?.refused];
  const isCount = (each: unknown): each is number => Number.isInteger(each) && Number(each) >= 0;
  if (!counts.every(isCount)) return undefined;
  const isAll = counts.reduce((sum, count) => sum + count, 0) === sent;
  return isAll ? (report as unknown as Report) : undefined;
}

/** What is wrong with an answer that acknowledges nothing. */
export function whyNot({ status, version, body }: Answer, url: string, sent: number): string {
  const text = body.slice(0, 300).trim();
  if (status < 500 && !version) {
    const code = status === 200 ? "" : ` ${status}${text && ` (${text})`}`;
    return (
      `${url} answers${code} without Tracklog-Protocol: it is no collector but a proxy or a ` +
      "portal, or a collector older than this emitter (upgrade collectors first)"
    );
  }
  if (version && version !== PROTOCOL)
    return `${url} speaks version ${version} of the protocol, this emitter ${PROTOCOL}`;
  if (status === 200) return `${url} does not say what became of ${sent} lines: ${text || "it is empty"}`;
  return `${url} answers ${status}: ${text || "it gives no reason; its log may"}`;
}

/** Reads an answer to its end; throws Unreachable if it is not complete. */
export async function readAnswer(answer: IncomingMessage, url: string): Promise<Answer> {
  const status = answer.statusCode ?? 0;
  const version = answer.headers[PROTOCOL_HEADER] ?? "";
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of answer) {
    parts.push(part);
    size += part.length;
    // No report on a batch is that long; leaving the loop closes the connection.
    if (size > ANSWER_BYTES) return { status, body: "", isText: false, pause: 0, version };
  }
  if (!answer.complete) throw new Unreachable(`${url} stopped in the middle of its answer`);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  const pause = retryAfter(answer.headers["retry-after"]);
  try {
    const body = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { status, body, isText: true, pause, version };
  } catch {
    return { status, body: new TextDecoder().decode(bytes), isText: false, pause, version };
  }
}

/** The header Retry-After in seconds, at most five minutes. */
export function retryAfter(header: string | undefined): number {
  if (!header) return 0;
  const number = Number(header);
  const wait = Number.isNaN(number) ? (Date.parse(header) - Date.now()) / 1000 : number;
  return wait > 0 ? Math.min(wait, 300) : 0;
}
