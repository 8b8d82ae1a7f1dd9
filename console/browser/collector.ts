/** A real collector in a process of its own, with a home that nobody else has. */

import { type ChildProcess, type ChildProcessByStdio, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { test as base, expect, type Locator, type Page } from "@playwright/test";

const ROOT = resolve(import.meta.dirname, "../..");
export const BIN = join(ROOT, ".venv/bin");

export class Collector {
  readonly folder = mkdtempSync(join(tmpdir(), "tracklog-console-"));
  private child: ChildProcess | null = null;
  port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts it; a second start takes the same port, as a restart does. */
  async start(verb: "serve" | "demo" = "serve", ...more: string[]): Promise<void> {
    await this.starts(verb, more);
  }

  /** The same, with a token that is asked for. */
  async guard(token: string): Promise<void> {
    await this.starts("serve", [], token);
  }

  private async starts(verb: string, more: string[], token?: string): Promise<void> {
    const home = join(this.folder, "home");
    const child = spawn(join(BIN, "tracklog"), [verb, "--home", home, "--port", String(this.port), ...more], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, TRACKLOG_TOKEN: token, TRACKLOG_TOKEN_FILE: undefined, PYTHONUNBUFFERED: "1" },
    });
    this.child = child;
    this.port = Number(new URL(await addressOf(child)).port);
    for (;;) {
      const fine = await fetch(`${this.url}/healthz`)
        .then((r) => r.ok)
        .catch(() => false);
      if (fine) return;
      await new Promise((again) => setTimeout(again, 50));
    }
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((ended) => child.once("exit", ended));
    child.kill(signal);
    await gone;
  }

  async post(dialect: string, lines: readonly object[]): Promise<number> {
    const response = await fetch(`${this.url}/api/events/${dialect}`, {
      method: "POST",
      headers: { "Content-Type": "application/x-ndjson" },
      body: lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
    });
    const told = (await response.json()) as { refused: number; last_seq: number };
    if (!response.ok || told.refused) throw new Error(JSON.stringify(told));
    return told.last_seq;
  }

  /** Runs a verb of the command line on its home. */
  cli(...words: string[]): string {
    return execFileSync(join(BIN, "tracklog"), [...words, "--home", join(this.folder, "home")], { encoding: "utf8" });
  }

  /** Runs an agent that uses the emitter which sister repos copy. */
  agent(program: string): ChildProcessByStdio<null, Readable, null> {
    return spawn(join(BIN, "python"), ["-c", program], {
      cwd: join(ROOT, "contracts"),
      env: { ...process.env, TRACKLOG_URL: this.url, TRACKLOG_SPOOL: join(this.folder, "spool") },
      stdio: ["ignore", "pipe", "inherit"],
    });
  }

  async close(): Promise<void> {
    await this.kill("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A real witness, which signs the checkpoints that it is sent. */
export class Witness {
  private child: ChildProcess | null = null;

  constructor(private readonly folder: string) {}

  /** Starts it for the journal with this key, and returns its address. */
  async start(key: string): Promise<string> {
    execFileSync(join(BIN, "tracklog"), ["witness", "trust", key, "--folder", join(this.folder, "w")]);
    const child = spawn(
      join(BIN, "tracklog"),
      ["witness", "serve", "--folder", join(this.folder, "w"), "--port", "0"],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    this.child = child;
    return await addressOf(child);
  }

  stop(): void {
    this.child?.kill();
  }
}

/** The address that a server prints when it has begun. */
function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let text = "";
    child.stdout?.on("data", (part: Buffer) => {
      text += part.toString();
      const said = /http:\/\/127\.0\.0\.1:\d+(?=\D)/.exec(text);
      if (said) found(said[0]);
    });
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}`)));
  });
}

let told = 0;

export function now(): string {
  return new Date(Date.now() + told++).toISOString();
}

export const start = (run: string, agent = "coder", task = "t") => ({
  ts: now(),
  run_id: run,
  event: "agent_run_start",
  agent_id: agent,
  task,
});

export const move = (run: string, from: string, to: string, more: object = {}) => ({
  ts: now(),
  run_id: run,
  event: "agent_transition",
  agent_id: "coder",
  step: 0,
  from,
  to,
  ...more,
});

export const asks = (run: string, question: string, id = "q1") =>
  move(run, "thinking", "blocked-on-clarification", { reason: `clarification:${id}`, question });

export const said = (run: string, text: string, n = 0) => ({
  id: `${run}/${n}/${told++}`,
  run_id: run,
  turn: n,
  kind: "agent.spoke",
  actor: "cara",
  payload: { text },
  created_at: now(),
  schema_version: 1,
});

/** Each test has a collector; what the page complains about fails the test. */
export const test = base.extend<{ collector: Collector; quiet: string[] }>({
  collector: async ({}, use) => {
    const collector = new Collector();
    await collector.start();
    await use(collector);
    await collector.close();
  },
  quiet: [
    async ({ page }, use) => {
      const said: string[] = [];
      page.on("pageerror", (error) => said.push(error.message));
      page.on("console", (message) => {
        if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text()))
          said.push(message.text());
      });
      await use(said);
      if (said.length) throw new Error(said.join("\n"));
    },
    { auto: true },
  ],
});

export { expect };

/** Opens a page anew: another hash alone would not. */
export async function open(page: Page, collector: Collector, hash = "#/"): Promise<void> {
  await page.goto("about:blank");
  await page.goto(`${collector.url}/${hash}`);
}

/** The rows of runs in the table of the fleet. */
export function rowsOf(page: Page): Locator {
  return page
    .getByRole("table", { name: "Runs" })
    .getByRole("row")
    .filter({ has: page.getByRole("link") });
}

/** Presses keys one after another. */
export async function press(page: Page, ...keys: string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}

/** A line of its own, as in a browser whose tabs cannot share one: only what a page asks for itself can be held up. */
export async function ownLine(page: Page): Promise<void> {
  await page.addInitScript(() => Reflect.deleteProperty(window, "SharedWorker"));
}

/** What stands around the first words of the page, in the order of the document. */
export async function firstArticle(page: Page): Promise<string> {
  return page.evaluate(() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode())
      if (node.textContent?.trim()) return node.parentElement?.closest("article")?.textContent ?? "";
    return "";
  });
}

/** Until everything that was asked for is there. */
export async function settled(page: Page): Promise<void> {
  const main = page.locator("main");
  await expect(main).not.toBeEmpty();
  await expect(main).not.toContainText(/Loading…|Loading …|loading …|Searching with|verifying …/);
  await expect(page.locator(".pulse")).toContainText("live");
}

/** What makes a page scroll sideways; nothing should. */
export async function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const main = document.getElementById("main");
    const wide = main !== null && main.scrollWidth > main.clientWidth;
    if (document.documentElement.scrollWidth <= window.innerWidth && !wide) return [];
    if (wide) main.style.overflowX = "visible";
    const clipped = (each: Element | null): boolean =>
      each !== null && (getComputedStyle(each).overflowX !== "visible" || clipped(each.parentElement));
    return [...document.querySelectorAll("body *")]
      .filter((each) => each.getBoundingClientRect().right > window.innerWidth && !clipped(each.parentElement))
      .slice(0, 5)
      .map((each) => `${each.tagName} ${each.className} ${each.textContent?.slice(0, 40)}`);
  });
}
