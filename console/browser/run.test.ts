import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, move, now, open, press, said, settled, start, test } from "./collector";

const told = (run: string, fact: string, more: object, n: number) => ({
  id: `${run}-${n}`,
  run,
  at: new Date().toISOString(),
  fact,
  agent: "main",
  origin: { writer: "test", fidelity: "reported" },
  ...more,
});

test("a run is shown from all sides", async ({ page, collector }) => {
  await collector.post("tracklog", [
    told("r", "Began", { what: "run", task: "repair the basket" }, 1),
    told("r", "Said", { role: "user", blocks: [{ type: "text", text: "please **repair** it" }] }, 2),
    told("r", "Called", { tool: "Bash", call_id: "c1", input: { command: "ls" } }, 3),
    told("r", "Returned", { tool: "Bash", call_id: "c1", ok: false, error: "no such file", seconds: 2 }, 4),
    told(
      "r",
      "Said",
      {
        role: "assistant",
        blocks: [
          { type: "thinking", thinking: "hm, odd\nI look at the roof" },
          { type: "text", text: "done" },
        ],
      },
      5,
    ),
    told("r", "Ended", { what: "run", outcome: "end_turn", passed: true }, 6),
  ]);
  await open(page, collector, "#/run/tracklog/r");
  const feed = page.getByRole("feed");
  await expect(feed.locator("strong", { hasText: "repair" })).toBeVisible();
  await expect(page.getByText("✓ verified")).toBeVisible();
  await expect(page.getByRole("region", { name: "Summary" })).toContainText("end_turn");
  await expect(feed.getByText("I look at the roof")).toBeHidden();
  await feed.getByText("Thought: hm, odd").click();
  await expect(feed.getByText("I look at the roof")).toBeVisible();
  const call = feed.locator("details.call");
  await expect(call).toContainText("failed");
  await call.locator("summary").click();
  await expect(call).toContainText("no such file");
  await expect(feed).toContainText("reported");
  await page.getByRole("button", { name: "1 failed" }).click();
  await expect(page.getByRole("complementary", { name: "Record 4" })).toBeVisible();
  await expect(page.locator("#e3")).toHaveClass(/chosen/);
  await page.getByRole("tab", { name: "waterfall" }).click();
  const row = page.getByRole("treegrid").getByRole("row", { name: /Bash/ });
  await expect(row).toContainText("✕");
  await row.getByRole("button", { name: /Bash/ }).click();
  const details = page.getByRole("complementary", { name: "The chosen row" });
  await expect(details).toContainText("no such file");
  await expect(page.getByRole("complementary", { name: /Record/ })).toHaveCount(0);
  await details.getByRole("button", { name: /Why/ }).click();
  await expect(page.getByRole("complementary", { name: /Record 3/ })).toBeVisible();
  await page.getByRole("button", { name: "Agents", exact: true }).click();
  const span = page.getByRole("button", { name: /Bash/ });
  await span.click();
  await expect(page.getByRole("complementary", { name: /Record 3/ })).toBeVisible();
  await page.getByRole("tab", { name: "transcript" }).click();
  await expect(page.locator("#e3")).toHaveClass(/chosen/);
  await page.getByText("Export").click();
  const formats = page.locator("details a[download]");
  await expect(formats.filter({ hasText: "otel" })).toBeVisible();
  for (const link of await formats.all()) {
    const answer = await page.request.get(`${collector.url}${await link.getAttribute("href")}`);
    expect(answer.status(), await link.innerText()).toBe(200);
    expect((await answer.body()).length).toBeGreaterThan(0);
  }
  const download = page.waitForEvent("download");
  await formats.first().click();
  expect((await download).suggestedFilename()).toBeTruthy();
});

test("what was taken back says so", async ({ page, collector }) => {
  const origin = (record: string) => ({ origin: { writer: "test", fidelity: "reconstructed", record } });
  await collector.post("tracklog", [
    told("r", "Said", { role: "user", blocks: [{ type: "text", text: "wrong" }], ...origin("one") }, 1),
    told("r", "Noted", { label: "withdrawn", data: { from: "one" }, ...origin("two") }, 2),
    told("r", "Said", { role: "user", blocks: [{ type: "text", text: "right" }], ...origin("three") }, 3),
  ]);
  collector.cli("show", "r"); // so that it is indexed
  await open(page, collector, "#/run/tracklog/r");
  await expect(page.locator("#e1")).toContainText("taken back");
  await expect(page.locator("#e3")).toContainText("right");
  await expect(page.locator("#e3")).not.toContainText("taken back");
});

test("an erased record says when it was erased, by whom and why; a repeated call how often it was made", async ({
  page,
  collector,
}) => {
  const called = (id: string, n: number) =>
    told("r", "Called", { tool: "Bash", call_id: id, input: { command: "make" } }, n);
  await collector.post("tracklog", [
    told("r", "Said", { role: "user", blocks: [{ type: "text", text: "my password" }] }, 0),
    called("c1", 1),
    called("c2", 2),
  ]);
  collector.cli("erase", "r", "1", "--reason", "it was leaked", "--by", "ana", "--yes");
  await open(page, collector, "#/run/tracklog/r?seq=3");
  await expect(page.locator("#e1")).toHaveText(/erased on \d{4}-\d\d-\d\d by ana \(.+\): it was leaked/);
  await expect(page.getByRole("region", { name: "Facts of the record" })).toContainText(
    "the same Bash call 2 times, first in #2",
  );
});

test("what is chosen or read in the transcript is marked in the timeline, and the other way round", async ({
  page,
  collector,
}) => {
  const calls = Array.from({ length: 80 }, (_, n) => [
    told("r", "Called", { tool: `tool-${n}`, call_id: `c${n}`, at: new Date(1e12 + n * 60_000).toISOString() }, n * 3),
    told(
      "r",
      "Returned",
      { call_id: `c${n}`, ok: true, at: new Date(1e12 + n * 60_000 + 30_000).toISOString() },
      n * 3 + 1,
    ),
    told(
      "r",
      "Said",
      {
        role: "assistant",
        blocks: [{ type: "text", text: `said ${n}` }],
        at: new Date(1e12 + n * 60_000 + 40_000).toISOString(),
      },
      n * 3 + 2,
    ),
  ]);
  await collector.post("tracklog", calls.flat());
  await open(page, collector, "#/run/tracklog/r?view=timeline");
  await settled(page);
  const cursor = page.getByTestId("cursor");
  const left = async () =>
    Math.round(parseFloat((await cursor.getAttribute("style"))?.match(/left: ([\d.]+)%/)?.[1] ?? "-1"));
  await page.getByRole("button", { name: "tool-40" }).click();
  await expect.poll(left).toBe(50);
  await page.getByRole("tab", { name: "transcript" }).click();
  await expect(page.locator("#e121")).toBeInViewport();
  await expect(page.locator("#e121")).toHaveClass(/chosen/);
  const marked = async () =>
    parseFloat((await page.getByTestId("here").getAttribute("style"))?.match(/left: ([\d.]+)%/)?.[1] ?? "-1");
  await expect.poll(marked).toBeGreaterThan(40);
  await page.getByRole("button", { name: "Close the record" }).click();
  await page.getByRole("feed").evaluate((box) => (box.scrollTop = 0));
  await expect(page.locator("#e1")).toBeInViewport();
  await expect.poll(marked).toBeLessThan(5);
  await page.getByRole("tab", { name: "waterfall" }).click();
  await page.getByRole("button", { name: "Agents", exact: true }).click();
  await expect.poll(left).toBeLessThan(5);
  await page.keyboard.press("+");
  await expect(page.getByRole("button", { name: "tool-70" })).toHaveCount(0);
  await page.keyboard.press("-");
  await expect(page.getByRole("button", { name: "tool-70" })).toBeVisible();
});

test("a text that is too long is cut, and shown in full on request", async ({ page, collector }) => {
  const text = `${"word ".repeat(2_000)}and the end`;
  await collector.post("tracklog", [told("r", "Said", { role: "assistant", blocks: [{ type: "text", text }] }, 1)]);
  await open(page, collector, "#/run/tracklog/r");
  const feed = page.getByRole("feed");
  await expect(feed).toContainText("word word");
  await expect(feed).not.toContainText("and the end");
  await page.getByRole("button", { name: "show all of it" }).click();
  await expect(feed).toContainText("and the end");
});

test("a link to any event shows it, its raw JSON, its causes and its effects", async ({ page, collector, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const odd =
    '{"ts":"2026-05-05T09:00:00.000Z", "run_id":"r","event":"agent_run_start","agent_id":"coder","task":"t","n":1.0,"x":"\\u00e9"}';
  await fetch(`${collector.url}/api/events/kahn-agent`, {
    method: "POST",
    headers: { "Content-Type": "application/x-ndjson" },
    body: `${odd}\n`,
  });
  await collector.post("kahn-agent", [move("r", "thinking", "tool_call"), move("r", "tool_call", "tool_result")]);
  await open(page, collector, "#/run/kahn/r?seq=1");
  await page.getByRole("button", { name: "Raw record" }).click();
  await expect(page.getByTestId("raw")).toHaveText(odd);
  await expect(page.getByText("It led to")).toBeVisible();
  await expect(page.getByRole("region", { name: "Facts of the record" })).toContainText("agent_run_start, kahn-agent");
  await open(page, collector, "#/run/kahn/r?seq=3");
  const record = page.getByRole("complementary", { name: "Record 3" });
  const steps = record.getByRole("list", { name: "What led to it" }).getByRole("listitem");
  await expect(steps.first()).toContainText("asked"); // the prompt; the record itself comes last
  await expect(steps.last()).toContainText("tool_call → tool_result");
  await steps.first().getByRole("link", { name: "record 1" }).click();
  await expect(page).toHaveURL(/seq=1$/);
  await expect(page.locator("#e1")).toHaveClass(/chosen/);
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await expect(page.getByRole("button", { name: "Copied" })).toBeVisible();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(odd);
});

test("a record that was changed behind our back is not called proven", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r", "coder", "honest"), start("other")]);
  await collector.kill("SIGTERM");
  const journal = join(collector.folder, "home/journal");
  const segment = join(journal, readdirSync(journal).find((name) => name.endsWith(".jsonl")) ?? "");
  writeFileSync(segment, readFileSync(segment, "utf8").replace("honest", "forged"));
  await collector.start();
  await open(page, collector, "#/run/kahn/r");
  const summary = page.getByRole("region", { name: "Summary" });
  await expect(summary).toContainText("changed: record 1");
  await expect(summary).not.toContainText("✓ verified");
});

test("the slider shows the run as it was", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r"), move("r", "thinking", "failed"), start("r")]);
  await open(page, collector, "#/run/kahn/r");
  await expect(page.getByRole("feed")).toContainText("failed");
  await page.getByLabel("at record").focus();
  await page.keyboard.press("Home");
  await expect(page.getByText("as it was at record 1")).toBeVisible();
  await expect(page.getByRole("feed")).not.toContainText("failed");
  expect(page.url()).toContain("at=1");
});

test("illegal moves are marked in the lifecycle and found in place", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r"), move("r", "thinking", "converged")]);
  await open(page, collector, "#/run/kahn/r?view=lifecycle");
  await expect(page.locator(".lifecycle .illegal")).toHaveCount(1);
  await page.getByRole("tab", { name: /findings/ }).click();
  await expect(page.getByText("illegal-transition")).toBeVisible();
  await page.getByRole("tab", { name: "transcript" }).click();
  await expect(page.locator("#e2 .finding", { hasText: "illegal-transition" })).toBeVisible();
});

test("many findings are listed part by part", async ({ page, collector }) => {
  const moves = Array.from({ length: 250 }, () => move("r", "failed", "thinking"));
  await collector.post("kahn-agent", [start("r"), move("r", "thinking", "failed"), ...moves]);
  await open(page, collector, "#/run/kahn/r/findings");
  const rows = page.getByRole("tabpanel").getByRole("row");
  await expect(rows).toHaveCount(201); // with the head
  await page.getByRole("tabpanel").getByRole("button", { name: /more$/ }).click();
  await expect.poll(() => rows.count()).toBeGreaterThan(250);
});

test("sub-runs are a tree that leads to them and back", async ({ page, collector }) => {
  await collector.post("kahn-agent", [
    start("above", "coder", "above"),
    { ...start("below", "coder", "below"), parent_run_id: "above" },
  ]);
  await open(page, collector, "#/run/kahn/above?view=tree");
  await page.getByRole("tabpanel").getByRole("link", { name: "below" }).click();
  const summary = page.getByRole("region", { name: "Summary" });
  await expect(summary).toContainText("kahn:below");
  await open(page, collector, "#/run/kahn/below?view=tree");
  await page.getByRole("tabpanel").getByRole("link", { name: "above" }).click();
  await expect(summary).toContainText("kahn:above");
});

test("a long run opens at the record that is wanted before the rest was read, and the rest moves nobody", async ({
  page,
  collector,
}) => {
  await collector.post(
    "fishbowl",
    Array.from({ length: 1200 }, (_, n) => said("talk", `line ${n + 1}`, n)),
  );
  const held: (() => void)[] = [];
  await page.route(/story\?after=\d+&limit=1000/, (route) => void held.push(() => void route.continue()));
  await open(page, collector, "#/run/fishbowl/talk?seq=600");
  await expect(page.locator("#e600")).toBeInViewport();
  await expect(page.locator("#e600")).toHaveClass(/chosen/);
  await expect(page.locator(".tabs")).toContainText("200 records, loading");
  await open(page, collector, "#/run/fishbowl/talk"); // it goes on, so it opens at its end
  await expect(page.locator("#e1200")).toBeInViewport();
  const feed = page.getByRole("feed");
  await feed.evaluate((box) => (box.scrollTop -= 900));
  await expect(page.locator("#e1200")).not.toBeInViewport();
  const top = () =>
    feed.evaluate((box) => {
      const seen = [...box.querySelectorAll("article")].map(
        (each) => [each.id, Math.round(each.getBoundingClientRect().top)] as const,
      );
      return seen.find(([, at]) => at > box.getBoundingClientRect().top)?.join();
    });
  await expect(async () => {
    const now = await top();
    await page.waitForTimeout(200);
    expect(await top()).toBe(now);
  }).toPass();
  const before = await top();
  for (const go of held) go();
  await expect(page.locator(".tabs > [role=status]")).toHaveText("1,200 records");
  await expect.poll(top).toBe(before);
  await feed.evaluate((box) => (box.scrollTop = 0));
  await expect(page.locator("#e1")).toBeInViewport();
});

test("a reader of a live run is not scrolled, and sees how many records are new", async ({ page, collector }) => {
  const lines = Array.from({ length: 200 }, (_, n) => said("talk", `line ${n}`, n));
  await collector.post("fishbowl", lines);
  await open(page, collector, "#/run/fishbowl/talk");
  const feed = page.getByRole("feed");
  await expect(feed).toContainText("line 199");
  await feed.evaluate((box) => (box.scrollTop = 2000));
  /** What stands a little below the top, and where; a pixel more or less is nobody's jump. */
  const see = () =>
    feed.evaluate((box) => {
      const top = box.getBoundingClientRect().top;
      const found = [...box.querySelectorAll("article")].find((each) => each.getBoundingClientRect().bottom > top + 20);
      return { id: found?.id, at: (found?.getBoundingClientRect().top ?? 0) - top };
    });
  await expect(async () => {
    const now = await see();
    expect(now.id).not.toBe("e1");
    await page.waitForTimeout(200);
    expect(await see()).toEqual(now);
  }).toPass();
  const before = await see();
  for (let n = 0; n < 5; n++) await collector.post("fishbowl", [said("talk", `fresh ${n}`, 300 + n)]);
  await expect(page.getByRole("button", { name: "5 new" })).toBeVisible();
  const after = await see();
  expect(after.id).toBe(before.id);
  expect(Math.abs(after.at - before.at)).toBeLessThanOrEqual(2);
  await page.getByRole("button", { name: "5 new" }).click();
  await expect(feed).toContainText("fresh 4");
  await expect(page.getByRole("button", { name: /new/ })).toHaveCount(0);
});

test("[BOWL-22] the stage shows scene, cast, notes of any kind, and the verdict", async ({ page, collector }) => {
  const one = said("bowl", "x");
  const cast = { cara: { model_endpoint: "model://c" }, bex: { model_endpoint: null } };
  await collector.post("fishbowl", [
    {
      ...one,
      id: "1",
      kind: "run.started",
      actor: "conductor",
      payload: { seed: "s", goal: "find the cat", scenario: "kitchen", cast, competition: { kind: "judged" } },
    },
    { ...one, id: "2", kind: "world.observed", actor: "world", payload: { text: "A dark kitchen." } },
    { ...one, id: "3", kind: "agent.spoke", actor: "cara", payload: { text: "I have proof." } },
    { ...one, id: "4", kind: "clue.found", actor: "bex", payload: { text: "A bell." } },
    { ...one, id: "5", kind: "tick.passed", actor: "clock", payload: { n: 1 } },
    { ...one, id: "6", kind: "judge.verdict", actor: "judge", payload: { text: "Cara was right.", winner: "cara" } },
  ]);
  await open(page, collector, "#/run/fishbowl/bowl?view=stage");
  await expect(page.getByRole("region", { name: "Scene" })).toContainText("A dark kitchen.");
  const cast2 = page.getByRole("list", { name: "Cast" });
  await expect(cast2).toContainText("cara");
  await expect(cast2).toContainText("bex");
  await expect(page.getByText("A bell.")).toBeVisible();
  await expect(page.getByRole("region", { name: "Verdict" })).toContainText("cara");
});

test("two runs are laid side by side and the place where they part is on the screen", async ({ page, collector }) => {
  const common = Array.from({ length: 60 }, (_, n) => `the same ${n}`);
  for (const run of ["a", "b"])
    await collector.post(
      "fishbowl",
      [...common, run === "a" ? "left" : "right"].map((text, n) => said(run, text, n)),
    );
  for (const place of ["#/diff?a=fishbowl:a&b=fishbowl:b", "#/compare/fishbowl:a/fishbowl:b"]) {
    await open(page, collector, place);
    await expect(page.locator("tr.first")).toBeInViewport();
  }
  await expect(page.locator("tr.first")).toContainText("right");
  await press(page, "g", "f"); // and nothing is left behind that complains
  await expect(page.getByRole("region", { name: "Runs", exact: true }).getByRole("link")).toHaveCount(2);
});

test("search finds messages, marks the words, filters, and leads to the record", async ({ page, collector }) => {
  await collector.post("fishbowl", [said("talk", "the connection was refused")]);
  await collector.post("kahn-agent", [start("other", "coder", "a connection to repair")]);
  await open(page, collector);
  await expect(page.getByRole("region", { name: "Runs", exact: true })).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("connection");
  await page.keyboard.press("Enter");
  await expect(page.locator("mark")).toHaveCount(2);
  await page
    .getByRole("group", { name: "Source" })
    .getByRole("checkbox", { name: /^fishbowl/ })
    .check();
  await expect(page.locator("mark")).toHaveCount(1);
  expect(page.url()).toContain("dialect=fishbowl");
  await page.getByRole("link", { name: /connection was refused/ }).click();
  await expect(page.getByRole("complementary", { name: "Record 1" })).toBeVisible();
});

test("hits are narrowed by what they are, in the box and by boxes, and what is behind them is the command line's", async ({
  page,
  collector,
}) => {
  const line = (n: number, fact: object) => ({
    id: `h${n}`,
    run: "shop",
    at: now(),
    origin: { writer: "me", fidelity: "observed" },
    ...fact,
  });
  const calls = Array.from({ length: 6 }, (_, n) => [
    line(2 * n, { fact: "Called", tool: "Bash", call_id: `c${n}`, input: { command: `basket ${n}` } }),
    line(2 * n + 1, { fact: "Returned", call_id: `c${n}`, ok: n > 0, output: `the basket ${n}` }),
  ]);
  await collector.post("tracklog", [
    line(99, { fact: "Began", what: "run", task: "Fix the basket", cwd: "/src/shop" }),
    ...calls.flat(),
  ]);
  await open(page, collector, "#/search?q=basket");
  const results = page.getByRole("region", { name: "Results" });
  await expect(results).toContainText("13 hits in 1 run");
  await results.getByRole("button", { name: "9 more in this run" }).click();
  await expect(results.getByRole("listitem")).toHaveCount(13);
  await page
    .getByRole("group", { name: "Failed" })
    .getByRole("checkbox", { name: /^failed 2/ })
    .check();
  await expect(results).toContainText("2 hits in 1 run");
  await page.getByLabel("Words to search for").fill("basket kind:call tool:Bash project:shop");
  await page.keyboard.press("Enter");
  await expect(results).toContainText("1 hit in 1 run");
  expect(page.url()).toContain("failed=yes");
  const told = JSON.parse(collector.cli("hits", "--q", "basket kind:call tool:Bash failed:yes", "--json")) as {
    total: number;
  };
  expect(told.total).toBe(1);
});

test("a run called . or .. opens like any other", async ({ page, collector }) => {
  for (const run of [".", "..", "~."]) {
    await collector.post("tracklog", [
      {
        id: run,
        run,
        at: now(),
        fact: "Began",
        what: "run",
        task: `task of ${run}`,
        origin: { writer: "test", fidelity: "observed" },
      },
    ]);
    await open(page, collector, `#/run/tracklog/${run}`);
    await expect(page.getByRole("region", { name: "Summary" })).toContainText(`tracklog:${run}`);
    await expect(page.getByRole("feed", { name: "Transcript" })).toContainText("began");
  }
});

test("while a long run loads, the slider covers all of it", async ({ page, collector }) => {
  const last = await collector.post(
    "fishbowl",
    Array.from({ length: 600 }, (_, n) => said("long", `line ${n}`, n)),
  );
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const asked: string[] = [];
  await page.route("**/story?*", async (route) => {
    const { searchParams } = new URL(route.request().url());
    asked.push(searchParams.toString());
    if (searchParams.get("limit") === "1000") await released;
    await route.continue();
  });
  await open(page, collector, "#/run/fishbowl/long");
  const slider = page.getByRole("slider");
  await expect(slider).toHaveAttribute("max", String(last));
  await expect(page.locator(`#e${last}`)).toBeInViewport(); // it goes on, so it opens at its end
  asked.length = 0;
  await slider.fill(String(last - 150));
  await expect(page).toHaveURL(new RegExp(`at=${last - 150}`));
  await expect(page.locator(`#e${last - 150}`)).toBeInViewport();
  await expect(page.locator(`#e${last - 149}`)).toHaveCount(0);
  expect(asked).toHaveLength(2); // what stands before and after that moment, and nothing else of the run
  release();
  await expect(slider).toHaveAttribute("max", "599");
  await expect(page.locator(`#e${last - 150}`)).toBeInViewport();
  await slider.fill("99");
  await expect(page.locator("#e100")).toBeInViewport();
  await expect(page.locator("#e101")).toHaveCount(0);
  await expect(page.locator(".head")).toHaveText(/^\d\d:\d\d:\d\d #100$/);
});

test("a journal that was rewritten and grew since is noticed; one that only grew is not", async ({
  page,
  collector,
}) => {
  const home = join(collector.folder, "home");
  const proof = page.locator(".proof");
  const signed = async (...runs: string[]) => {
    const lines = runs.map((run) => start(run));
    await collector.post("kahn-agent", lines);
    const made = await page.request.post(`${collector.url}/api/settings/checkpoints`, { data: {} });
    expect(made.status()).toBe(200); // who signed it is one more record
  };
  for (const runs of [["a"], ["b", "c"], ["d"]]) {
    await signed(...runs);
    await open(page, collector, "#/run/kahn/a");
    await expect(proof).toContainText("Signed, no witness ✓ verified");
  }
  await collector.kill("SIGTERM");
  for (const name of readdirSync(home)) if (name !== "checkpoint.key") rmSync(join(home, name), { recursive: true });
  await collector.start();
  await signed("a", "x", "c", "d", "e", "f", "g");
  for (const run of ["a", "x"]) {
    await open(page, collector, `#/run/kahn/${run}`);
    await expect(proof).toContainText(/rewritten: .* of 7 records, and the last one, of 8, does not begin with them/);
  }
});
