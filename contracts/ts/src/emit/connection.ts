/** HTTP requests to one collector, with its token. */

import { closeSync, constants, openSync, readSync } from "node:fs";
import { Agent, type ClientRequest, request as overHttp } from "node:http";
import { request as overHttps, Agent as SecureAgent } from "node:https";

import { type Answer, readAnswer, Unreachable } from "./answer.js";
import type { Environ } from "./environ.js";

export const TOKEN_ENV = "TRACKLOG_TOKEN";
export const TOKEN_FILE_ENV = "TRACKLOG_TOKEN_FILE";
const TOKEN_BYTES = 64 << 10;

export class Connection {
  readonly url: string;
  readonly #token: string | undefined;
  readonly #tokenFile: string | undefined;
  readonly #agent: Agent;
  readonly #warn: (what: string, text: string) => void;
  #request: ClientRequest | undefined;

  /** A token that is not given is taken from the environment; a URL that is none is refused. */
  constructor(url: string, token: string | undefined, environ: Environ, warn: (what: string, text: string) => void) {
    this.url = checkedUrl(url);
    this.#token = token || environ[TOKEN_ENV] || undefined;
    this.#tokenFile = environ[TOKEN_FILE_ENV] || undefined;
    const agents = this.url.startsWith("https:") ? SecureAgent : Agent;
    this.#agent = new agents({ keepAlive: true, maxSockets: 1 });
    this.#warn = warn;
  }

  /** Sends a request; throws Unreachable if no complete answer arrives. */
  exchange(
    method: "GET" | "POST",
    path: string,
    patience: number,
    body?: Uint8Array,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const token = this.#secret();
      const options = {
        method,
        // One connection for everything that is sent; a request that waits for an answer has its own.
        ...(body ? { agent: this.#agent } : { agent: false as const }),
        headers: {
          ...headers,
          ...(body ? { "Content-Length": String(body.length) } : {}),
          ...(token ? { Authorization: `Bearer ${token}` } : {}),
        },
      };
      const ask = this.url.startsWith("https:") ? overHttps : overHttp;
      let isRead = false;
      const sent = ask(`${this.url}${path}`, options, (answer) => {
        readAnswer(answer, this.url).then((found) => {
          isRead = true;
          resolve(found);
        }, fail);
      });
      const timer = setTimeout(() => sent.destroy(new Error("timed out")), patience * 1000);
      const fail = (error: Error) => {
        clearTimeout(timer);
        if (!isRead) sent.destroy();
        reject(
          error instanceof Unreachable
            ? error
            : new Unreachable(`${this.url} does not answer (${error.message || error.name})`),
        );
      };
      if (body) {
        // What is sent in the background does not keep the process from ending.
        timer.unref();
        sent.on("socket", (socket) => socket.unref());
        this.#request = sent;
      }
      sent.on("error", fail);
      sent.on("close", () => {
        clearTimeout(timer);
        // An answer that arrived may still be on its way through the loop.
        setImmediate(() => isRead || fail(new Error("it closed the connection")));
      });
      sent.end(body);
    });
  }

  /** Ends the request that is being sent, and the connection. */
  close(): void {
    this.#request?.destroy();
    this.#agent.destroy();
  }

  #secret(): string | undefined {
    let token = this.#token;
    try {
      if (!token && this.#tokenFile) token = start(this.#tokenFile).trim();
    } catch (error) {
      this.#warn("token", `the token cannot be read: ${(error as Error).message}`);
    }
    if (!token || /^[\x21-\x7e]+$/.test(token)) return token;
    this.#warn("token", "the token holds what no header can hold; it is not sent");
    return undefined;
  }
}

/** The beginning of a small file; never waits, also if it is a pipe. */
function start(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const bytes = new Uint8Array(TOKEN_BYTES);
    return new TextDecoder().decode(bytes.subarray(0, readSync(file, bytes, 0, TOKEN_BYTES, null)));
  } finally {
    closeSync(file);
  }
}

function checkedUrl(url: string): string {
  let parsed: URL | undefined;
  try {
    parsed = new URL(url);
  } catch {
    // no URL at all
  }
  if (parsed?.username || parsed?.password)
    throw new TypeError(`an address holds no secret: give a token, or set ${TOKEN_ENV}`);
  if (!parsed || !/^https?:$/.test(parsed.protocol) || !parsed.hostname)
    throw new TypeError(`${JSON.stringify(url)} is no address of a collector: write one like http://127.0.0.1:4318`);
  return url.replace(/\/+$/, "");
}
