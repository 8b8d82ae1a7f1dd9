import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Collector, expect, open, press, rowsOf, settled, start, test } from "./collector";
import { line, story } from "./story";

const summary = (collector: Collector, run: string) =>
  JSON.parse(collector.cli("show", run, "--json")) as {
    tool_calls: number;
    tool_failures: number;
    tokens: number;
    computed_usd: number | null;
  };

test("a turn is a card with its tokens and its cost, a call one row with the lines that say why it failed", async ({
  page,
  collector,
}) => {
  await collector.post("tracklog", story("r"));
  await open(page, collector, "#/run/tracklog/r");
  const feed = page.getByRole("feed", { name: "Transcript" });
  await expect(feed).toContainText("Turn 1");
  await expect(feed).toContainText("Turn 2");
  await expect(feed).toContainText("10K in, 50 % cached · 500 out");
  await expect(feed.locator("#e9 .preview")).toHaveText(/^FAILED test_basket/);
  await feed.locator("#e5").getByRole("button", { name: "2 more lines" }).click();
  await expect(feed.locator("#e5")).toContainText("six");
  await feed.locator("#e5 summary").click();
  await page.getByRole("button", { name: /^Tools 2/ }).click();
  await expect(feed).not.toContainText("Now the tests");
  await expect(page).toHaveURL(/kind=tools/);
  await page
    .getByRole("button", { name: /^Failed/ })
    .first()
    .click();
  await expect(feed.getByRole("article")).toHaveCount(2); // the call, and the end of the run
  await page.getByRole("button", { name: /^All/ }).click();
  await press(page, "f");
  await page.keyboard.type("basket");
  await expect(page.getByText(/\d found/)).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByText(/1 of \d/)).toBeVisible();
  await expect(page).toHaveURL(/seq=\d/);
  const marked = () => page.evaluate(() => [...(CSS.highlights.get("found") ?? [])].map((each) => String(each)));
  await expect.poll(async () => new Set(await marked())).toEqual(new Set(["basket"]));
  // What a turn spent is in its head, and no row of its own; the records have it.
  await expect(feed).not.toContainText("spent 10000");
  await expect(feed.locator("#e5 summary")).toContainText("6 lines");
  await page.getByRole("tab", { name: /^records/ }).click();
  await expect(page.getByRole("tabpanel")).toContainText("spent 10000");
});

test("the row that a link leads to stays in view while the heads of the turns above it arrive", async ({
  page,
  collector,
}) => {
  const long = Array.from({ length: 60 }, (_, n) => [
    line("long", 3 * n, 30 * n, "Said", { role: "assistant", blocks: [{ type: "text", text: `step ${n}` }] }),
    line("long", 3 * n + 1, 30 * n + 1, "Called", { tool: "Read", call_id: `c${n}`, input: { path: `${n}.py` } }),
    line("long", 3 * n + 2, 30 * n + 9, "Returned", { call_id: `c${n}`, ok: true, output: "one\ntwo\nthree" }),
  ]);
  await collector.post("tracklog", long.flat());
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(/turns\?seq=/, async (route) => {
    await released;
    await route.continue();
  });
  await open(page, collector, "#/run/tracklog/long?seq=92");
  await expect(page.locator("#e92")).toBeInViewport();
  await expect(page.getByText("Turn 31", { exact: true })).toHaveCount(0);
  release();
  await expect(page.getByText("Turn 31", { exact: true })).toBeVisible();
  await expect(page.locator("#e92")).toBeInViewport();
});

test("header, tabs and command line say the same of a run, and its spends add up to its cost", async ({
  page,
  collector,
}) => {
  await collector.post("tracklog", story("native"));
  await collector.post("kahn-agent", [start("live")]);
  const file = join(collector.folder, "session.jsonl");
  const session = (n: number, type: string, message: object) => ({
    type,
    timestamp: new Date(Date.now() - 86_400_000 + n * 1000).toISOString(),
    sessionId: "imported",
    uuid: `u-${n}`,
    parentUuid: n ? `u-${n - 1}` : null,
    cwd: "/home/me/shop",
    gitBranch: "main",
    version: "2.0.0",
    message: { role: type, ...message },
  });
  const lines = [
    session(0, "user", { content: "Repair it" }),
    session(3, "assistant", {
      id: "m",
      model: "claude-sonnet-4-5-20250929",
      content: [{ type: "text", text: "Done." }],
      usage: { input_tokens: 1_000_000, output_tokens: 1000 },
    }),
  ];
  writeFileSync(file, lines.map((each) => `${JSON.stringify(each)}\n`).join(""));
  collector.cli("import", file);
  const runs = JSON.parse(`[${collector.cli("runs", "--json").trim().split("\n").join(",")}]`) as {
    family: string;
    run: string;
  }[];
  expect(runs).toHaveLength(3);
  for (const { family, run } of runs) {
    const said = summary(collector, `${family}:${run}`);
    await open(page, collector, `#/run/${family}/${run}/cost`);
    const header = page.getByRole("region", { name: "Summary" });
    await expect(header).toContainText(`tool calls${said.tool_calls}`);
    if (said.tool_failures) await expect(header).toContainText(`${said.tool_failures}✕`);
    if (said.computed_usd === null) continue;
    const cost = `~$${said.computed_usd.toFixed(said.computed_usd < 0.1 ? 4 : 2)}`;
    await expect(header).toContainText(cost);
    await expect(page.getByRole("region", { name: "By model" }).getByRole("row", { name: /^Total/ })).toContainText(
      cost,
    );
  }
});

test("the waterfall shows turns, calls and failures, folds, zooms, and leads to the record", async ({
  page,
  collector,
}) => {
  await collector.post("tracklog", story("r"));
  await open(page, collector, "#/run/tracklog/r/waterfall");
  const grid = page.getByRole("treegrid", { name: "Waterfall" });
  const rows = grid.getByRole("row");
  await expect(rows).toHaveCount(7); // the run, two turns, in each a model call and a tool call
  await expect(grid.getByRole("row", { name: /Bash/ })).toContainText("20 s");
  await expect(grid.getByRole("row", { name: /Bash/ })).toContainText("pytest");
  await page.keyboard.press("]"); // time has no track here, but its keys act
  await expect(page).toHaveURL(/seq=1(?!\d)/);
  await page.keyboard.press("l");
  await expect(page.locator(".share-bar")).toContainText(/Tools and sub-runs \d+ %/);
  await page.getByRole("button", { name: /^Critical path/ }).click();
  await expect(rows).toHaveCount(5);
  await page.getByRole("button", { name: /^Critical path/ }).click();
  await page.getByRole("button", { name: "Failed 1" }).click();
  await expect(rows).toHaveCount(2);
  await page.getByRole("button", { name: "Failed 1" }).click();
  await page.getByRole("button", { name: "Collapse" }).click();
  await expect(rows).toHaveCount(3);
  await grid.getByRole("button", { name: "Open" }).first().click();
  await expect(rows).toHaveCount(5);
  await grid.getByRole("button", { name: /^Read/ }).click();
  await expect(page.getByRole("complementary", { name: "The chosen row" })).toContainText("record #5");
  await page.getByRole("button", { name: "Tools", exact: true }).click();
  await expect(grid.getByRole("row", { name: /Bash ×1/ })).toContainText("20 s");
  await expect(page).toHaveURL(/rows=tools/);
  await page.getByRole("button", { name: "Turns", exact: true }).click();
  await page.keyboard.press("0");
  const bars = await grid.locator(".wf-track").first().boundingBox();
  if (!bars) throw new Error("no bars");
  await page.mouse.move(bars.x + bars.width / 2, bars.y + 40);
  await page.mouse.wheel(0, -100); // over the bars it zooms
  await expect(page).toHaveURL(/t0=/);
  const from = () => new URLSearchParams(page.url().split("?")[1]).get("t0") ?? "";
  const before = from();
  await page.mouse.down();
  await page.mouse.move(bars.x + bars.width / 2 - 150, bars.y + 40, { steps: 5 }); // and a drag moves the window
  await page.mouse.up();
  await expect.poll(from).not.toBe(before);
  expect(from() > before).toBe(true);
  await page.keyboard.press("0");
  await expect(page).not.toHaveURL(/t0=/);
  await page.keyboard.press("1");
  await expect(page.locator("#e5")).toHaveClass(/chosen/);
});

test("the topology shows agents, what passed between them, sub-runs and who is asked", async ({ page, collector }) => {
  await collector.post("tracklog", [
    ...story("r").slice(0, 6),
    line("r", 20, 34, "Linked", { kind: "handoff", from: "coder", to: "critic" }),
    line("r", 21, 35, "Asked", { question_id: "q", text: "May I?", agent: "critic" }),
    line("r", 22, 36, "Linked", { kind: "sub-run", child: "below" }),
    line("below", 1, 37, "Began", { what: "run", task: "Look below" }),
    line("below", 2, 38, "Spent", { key: "below/1", usage: { input_tokens: 2100, output_tokens: 900 } }),
  ]);
  await open(page, collector, "#/run/tracklog/r/topology");
  const nodes = page.locator(".node");
  await expect(nodes).toHaveCount(5);
  for (const name of ["Repair r", "coder", "critic", "Look below", "You"])
    await expect(nodes.filter({ hasText: name })).toHaveCount(1);
  await nodes.filter({ hasText: "coder" }).click();
  const about = page.getByRole("complementary", { name: "The chosen agent" });
  await expect(about).toContainText("critic handoff");
  await expect(page).toHaveURL(/node=agent/);
  await page.reload();
  await expect(about).toContainText("critic handoff");
  await expect(page.locator(".react-flow__edge").filter({ hasText: "brief 2.1K / back 900" })).toHaveCount(1);
  await nodes.filter({ hasText: "Look below" }).click();
  await page.getByRole("complementary", { name: "The chosen run" }).getByRole("link", { name: "Open" }).click();
  await expect(page.getByRole("region", { name: "Summary" })).toContainText("tracklog:below");
});

test("what people noted about a run stands in its header", async ({ page, collector }) => {
  await collector.post("tracklog", story("native"));
  collector.cli("mark", "native", "--tag", "flaky", "--score", "0.5", "--note", "look at the retry", "--seen");
  await open(page, collector, "#/run/tracklog/native");
  const marks = page.getByRole("list", { name: "Marks of people" }).getByRole("listitem");
  await expect(marks).toHaveText(["flaky", "score 0.5", "1 note", /^seen by ./]);
});

test("why is a button; the keys step by record, by failure and back to live", async ({ page, collector }) => {
  const lines = story("r");
  const called = new Date(lines[8]?.at ?? "").toTimeString().slice(0, 8);
  await collector.post("tracklog", lines);
  await open(page, collector, "#/run/tracklog/r");
  await settled(page);
  await page.getByRole("button", { name: /^Why\?/ }).click();
  await expect(page.getByRole("complementary", { name: "Record 11" })).toBeVisible();
  await page.keyboard.press(",");
  await expect(page.getByRole("complementary", { name: "Record 10" })).toBeVisible();
  await page.keyboard.press("[");
  await expect(page.getByRole("complementary", { name: "Record 9" })).toBeVisible();
  await page.keyboard.press("a");
  await expect(page.getByText("as it was at record 9")).toBeVisible();
  await page.keyboard.press("l");
  await expect(page).toHaveURL(/#\/run\/tracklog\/r$/);
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog", { name: "Command palette" }).getByRole("combobox").fill(`:${called}`);
  await page.getByRole("option", { name: /^What it did at/ }).click();
  await expect(page).toHaveURL(/seq=9/);
});

test("two runs are chosen by their boxes and compared; another is chosen from a list", async ({ page, collector }) => {
  await collector.post("tracklog", [...story("one"), ...story("two"), ...story("three")]);
  await open(page, collector);
  for (const name of ["Select Repair one", "Select Repair two"]) await page.getByRole("checkbox", { name }).check();
  await page.getByRole("status").getByRole("link", { name: "Compare" }).click();
  await expect(page).toHaveURL(/#\/compare\/tracklog%3Aone\/tracklog%3Atwo/);
  await expect(page.getByRole("region", { name: "Figures" }).getByRole("row", { name: /^Tool calls/ })).toContainText(
    "22",
  );
  await expect(page.getByRole("img", { name: /^Failed calls: A \d+ in \d+ steps, B \d+ in \d+ steps/ })).toBeVisible();
  await collector.post("tracklog", [line("again", 1, 50, "Began", { what: "run", task: "Repair one" })]);
  await page.getByRole("region", { name: "Run B" }).getByRole("button", { name: "Change" }).click();
  const same = page.getByRole("list", { name: "Same task" }).getByRole("button");
  await expect(same).toHaveText([/again/]); // as run A, which is not there itself
  await page.getByLabel("Find a run by its title").fill("three");
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /Repair three/ })
    .click();
  await expect(page).toHaveURL(/tracklog%3Athree/);
  await page.keyboard.press("x");
  await expect(page).toHaveURL(/#\/compare\/tracklog%3Athree\/tracklog%3Aone/);
  await expect(rowsOf(page)).toHaveCount(0);
});

test("the cost tab draws each turn with the alert, the compaction and the cache, and says what was in vain", async ({
  page,
  collector,
}) => {
  const said = (n: number, seconds: number) =>
    line("c", n, seconds, "Said", { role: "assistant", blocks: [{ type: "text", text: `turn ${n}` }] });
  const spent = (n: number, seconds: number, usage: object) =>
    line("c", n, seconds, "Spent", { key: `c-${n}`, model: "claude-opus-4-1", usage });
  const called = (n: number, seconds: number) => [
    line("c", n, seconds, "Called", { tool: "Grep", call_id: `c${n}`, input: { words: "retry" } }),
    line("c", n + 1, seconds + 1, "Returned", { call_id: `c${n}`, ok: true }),
  ];
  await collector.post("tracklog", [
    line("c", 1, 0, "Began", { what: "run", task: "Repair" }),
    line("c", 2, 1, "Said", { role: "user", blocks: [{ type: "text", text: "repair it" }] }),
    said(3, 2),
    spent(4, 2, { input_tokens: 60_000, cache_write_tokens: 50_000, output_tokens: 900 }),
    ...called(5, 3),
    said(7, 5),
    spent(8, 5, { input_tokens: 156_000, cached_tokens: 150_000, cache_write_tokens: 5_000, output_tokens: 900 }),
    ...called(9, 6),
    line("c", 11, 8, "Noted", { label: "compaction", data: { before: 156_000, after: 62_000 } }),
    said(12, 9),
    spent(13, 9, { input_tokens: 62_000, cached_tokens: 1_000, cache_write_tokens: 60_000, output_tokens: 900 }),
    ...called(14, 10),
  ]);
  const rules = join(collector.folder, "alerts.yaml");
  writeFileSync(
    rules,
    'version: 1\nto: {d: {bell: true}}\nrules:\n  - {name: dear, of: runs, when: {cost: "> 5"}, to: [d]}\n',
  );
  await collector.kill("SIGTERM");
  await collector.start("serve", "--alerts", rules);
  await open(page, collector, "#/run/tracklog/c/cost");
  const chart = (name: RegExp) => page.getByRole("img", { name });
  await expect(chart(/^Cost per turn: ~\$\d\.\d\d 3 turns/)).toBeVisible();
  await expect(chart(/^Cumulative: \d+ % of the alert dear, alert at \$5\.00/)).toBeVisible();
  await expect(
    chart(/^Context window: 62K tokens now, 156K at its fullest, compacted: 156K → 62K before turn 3/),
  ).toBeVisible();
  await expect(chart(/^Cache hits: 54 % of input tokens/)).toBeVisible();
  const vain = page.getByRole("region", { name: "Expensive for no gain" });
  await expect(vain).toContainText(/Turn 3 wrote the cache again after a compaction\s*~\$1\.13/);
  await expect(vain).toContainText(/Grep\(.*retry.*\) 3 times, same input/);
  await page.getByRole("button", { name: "Tool" }).click();
  const total = page.getByRole("region", { name: "By tool" }).getByRole("row");
  await expect(total.filter({ hasText: "Grep" })).toContainText("100 %");
  const { of, computed_usd } = JSON.parse(collector.cli("costs", "--run", "c", "--by", "tool", "--json")) as {
    of: string;
    computed_usd: number;
  };
  await expect(total.filter({ hasText: of })).toContainText(`~$${computed_usd.toFixed(2)}`);
  await page.keyboard.press("t");
  const table = page.getByRole("region", { name: "Context window, as a table" });
  await expect(table.getByRole("row").nth(3)).toContainText("62K tokens");
  await expect(table.getByRole("row").nth(3)).toContainText("compacted");
});
