import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { asks, expect, firstArticle, move, open, said, start, test } from "./collector";

test("the first thing on the page is the agent that waits for a person", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("busy"), start("stuck"), asks("stuck", "Which port?")]);
  await open(page, collector);
  const question = page.getByRole("heading", { name: "Which port?" });
  await expect(question).toBeVisible();
  expect(await firstArticle(page)).toContain("Which port?");
  await expect(page).toHaveTitle("(1) tracklog");
});

test("runs are ordered by what needs a person", async ({ page, collector }) => {
  await collector.post("kahn-agent", [
    start("asking"),
    asks("asking", "May I?"),
    start("broken"),
    move("broken", "thinking", "failed"),
    start("busy"),
  ]);
  await open(page, collector);
  const rows = page.getByRole("region", { name: "Runs", exact: true }).getByRole("link");
  await expect(rows).toHaveCount(3);
  await expect(rows.nth(0)).toContainText("asking");
  await expect(rows.nth(1)).toContainText("broken");
  await expect(rows.nth(2)).toContainText("busy");
});

test("what happens is seen as it happens, phases too; when, relatively and exactly on hover", async ({
  page,
  collector,
}) => {
  await open(page, collector);
  await expect(page.getByText("Nothing was recorded yet.")).toBeVisible();
  await collector.post("kahn-agent", [start("fresh", "coder", "Repair it")]);
  await expect(page.getByRole("link", { name: /Repair it/ })).toBeVisible();
  const time = page.getByRole("region", { name: "Runs", exact: true }).locator("time");
  await expect(time).toHaveText(/ago|just now/);
  await expect(time).toHaveAttribute("title", /\d{4}.*\d\d:\d\d:\d\d\.\d{3}/);
  await collector.post("kahn-agent", [move("fresh", "thinking", "tool_call")]);
  await expect(page.getByRole("region", { name: "Agents at work" })).toContainText("tool_call");
  // A tab that nobody sees asks for nothing but who waits.
  const asked = await page.evaluateHandle(() => {
    const [ask, paths] = [window.fetch, new Set<string>()];
    window.fetch = (path, init) => {
      paths.add(String(path));
      return ask(path, init);
    };
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    return paths;
  });
  await collector.post("kahn-agent", [asks("fresh", "May I?")]);
  await expect(page).toHaveTitle("(1) tracklog");
  expect(await asked.evaluate((paths) => [...paths])).toEqual(["/api/inbox"]);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await expect(page.getByRole("region", { name: "Runs", exact: true }).getByRole("link")).toContainText("waiting");
});

test("every filter is in the address, and the address is the filter", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("one", "coder"), start("two", "tester")]);
  await collector.post("fishbowl", [said("talk", "hello")]);
  await open(page, collector);
  const runs = page.getByRole("region", { name: "Runs", exact: true });
  await expect(runs.getByRole("link")).toHaveCount(3);
  await page.getByLabel("dialect").selectOption("kahn-agent");
  await expect(runs.getByRole("link")).toHaveCount(2);
  await page.getByLabel("agent", { exact: true }).selectOption("tester");
  await expect(runs.getByRole("link")).toHaveCount(1);
  expect(page.url()).toContain("dialect=kahn-agent");
  await page.goBack();
  await expect(runs.getByRole("link")).toHaveCount(2);
  await page.goForward();
  await expect(runs.getByRole("link")).toHaveCount(1);
  await page.reload();
  await expect(runs.getByRole("link")).toHaveCount(1);
  await expect(runs.getByRole("link")).toContainText("two");
  await open(page, collector, "#/?text=nothing-has-this");
  await expect(runs).toContainText("0 of 3 runs");
  await page.getByRole("button", { name: "Show all" }).click();
  await expect(runs.getByRole("link")).toHaveCount(3);
  await collector.post("kahn-agent", [move("two", "thinking", "failed")]);
  const narrowed = async (label: string, value: string, name: string) => {
    await page.getByLabel(label, { exact: true }).selectOption(value);
    await expect(runs.getByRole("link")).toHaveCount(1);
    await expect(runs.getByRole("link")).toContainText(name);
    expect(page.url()).toContain(`=${value}`);
    await page.getByRole("button", { name: "Show all" }).click();
    await expect(runs.getByRole("link")).toHaveCount(3);
  };
  await narrowed("status", "failed", "two");
  await narrowed("dialect", "fishbowl", "talk");
  await page.getByLabel("Filter by text").fill("one");
  await expect(runs.getByRole("link")).toHaveCount(1);
  expect(page.url()).toContain("text=one");
  await open(page, collector, "#/?within=1h&outcome=converged");
  await expect(runs).toContainText("0 of 3 runs");
});

test("a long list is loaded page by page to its end, and runs that need a person come first", async ({
  page,
  collector,
}) => {
  const many = Array.from({ length: 640 }, (_, n) => start(`run-${String(n).padStart(3, "0")}`));
  await collector.post("kahn-agent", [start("asking"), asks("asking", "May I?"), ...many]);
  await open(page, collector);
  const runs = page.getByRole("region", { name: "Runs", exact: true });
  await expect(runs).toContainText("641 runs");
  await expect(runs.getByRole("link").first()).toContainText("asking");
  await runs.locator(".window").evaluate((box) => (box.scrollTop = box.scrollHeight));
  await expect(runs.getByRole("link", { name: /run-000/ })).toBeVisible();
  await runs.locator(".window").evaluate((box) => (box.scrollTop = 0));
  await expect(runs.getByRole("link", { name: /asking/ })).toBeVisible();
});

const ralph = (run: string, outcome: string, score?: number) => [
  { ts: new Date().toISOString(), run_id: run, event: "run_start", total_nodes: 1, actor: "rocky" },
  {
    ts: new Date().toISOString(),
    run_id: run,
    event: "node_transition",
    node_id: "p",
    from: "running",
    to: "done",
    outcome,
    ...(score === undefined ? {} : { convergence_score: score }),
  },
  {
    ts: new Date().toISOString(),
    run_id: run,
    event: "run_end",
    outcome,
    done: 1,
    failed: 0,
    blocked: 0,
    total_duration_s: 1,
    ...(outcome.startsWith("clean") ? {} : { exit_code: 1 }),
  },
];

test("[RALPH-25, RALPH-31] the panel of 24 hours shows the binary pass rate of the one fold", async ({
  page,
  collector,
}) => {
  const outcomes = ["clean", "clean_with_flake", "partial", "stuck", "catastrophic"];
  await collector.post(
    "ralph",
    outcomes.flatMap((outcome) => ralph(`r-${outcome.replace(/_/g, "-")}`, outcome)),
  );
  await open(page, collector);
  const panel = page.locator('[id="dash/ralph-runs"]');
  await expect(panel).toContainText("40 %");
  await expect(panel).toContainText("passed: 2 of 5");
  await expect(panel).toContainText("1 flaky");
});

test("[RALPH-23] without the optional slots nothing is shown for them, and nothing fails", async ({
  page,
  collector,
}) => {
  await collector.post("ralph", ralph("plain", "clean"));
  await open(page, collector);
  const panel = page.locator('[id="dash/ralph-runs"]');
  await expect(panel).toContainText("100 %");
  await expect(panel).not.toContainText("convergence");
  await collector.post("ralph", ralph("scored", "clean", 0.75));
  await expect(panel).toContainText("convergence 0.75");
  await open(page, collector, "#/run/kahn/plain");
  await expect(page.getByRole("feed")).toContainText("clean");
  await expect(page.getByRole("feed")).not.toContainText("convergence");
});

test("the panel of ralph's runs, and a run of ralph, have addresses that stay", async ({ page, collector }) => {
  const [ts, run_id] = [new Date().toISOString(), "rocky-7"];
  await page.goto(`${collector.url}/#/ralph`);
  await expect(page.getByText("passed: 0 of 0")).toBeVisible();
  await collector.post("ralph", [
    { ts, run_id, event: "run_start", total_nodes: 1, actor: "rocky" },
    {
      ts,
      run_id,
      event: "node_transition",
      node_id: "p",
      from: "running",
      to: "done",
      outcome: "clean",
      convergence_score: 0.75,
    },
    { ts, run_id, event: "run_end", outcome: "clean", done: 1, failed: 0, blocked: 0, total_duration_s: 1.5 },
  ]);
  for (const address of ["#/ralph", "#/dash/ralph-runs"]) {
    await page.goto("about:blank");
    await page.goto(`${collector.url}/${address}`);
    const panel = page.locator('[id="dash/ralph-runs"]');
    await expect(panel).toContainText("passed: 1 of 1");
    await expect(panel).toContainText("convergence 0.75");
  }
  await page.goto("about:blank");
  await page.goto(`${collector.url}/#/ralph/rocky-7`);
  await expect(page.getByRole("heading", { name: /rocky-7/ }).first()).toBeVisible();
  await page.goto(`${collector.url}/#/dash/nothing`);
  await expect(page.getByText("There is no such panel.")).toBeVisible();
});

/** A Claude session of 29 days ago; its first model has no list price, so its cost is a lower bound. */
const session = () => {
  const at = (n: number) => new Date(Date.now() - 29 * 86_400_000 + n * 1000).toISOString();
  const line = (n: number, type: "user" | "assistant", message: object) => ({
    type,
    timestamp: at(n),
    sessionId: "old-session",
    uuid: `u-${n}`,
    parentUuid: n ? `u-${n - 1}` : null,
    cwd: "/home/me/rockets",
    gitBranch: "fins",
    version: "2.0.0",
    message: { role: type, ...message },
  });
  const reply = (n: number, model: string) =>
    line(n, "assistant", {
      id: `m-${n}`,
      model,
      content: [{ type: "text", text: "Done." }],
      usage: { input_tokens: 1_000_000, output_tokens: 1000 },
    });
  const lines = [
    line(0, "user", { content: "Repair the fins" }),
    reply(1, "model-of-nobody"),
    reply(2, "claude-sonnet-4-5-20250929"),
  ];
  return lines.map((each) => `${JSON.stringify(each)}\n`).join("");
};

test("an imported session shows its cost, its age, its model, folder and branch, as the command line does", async ({
  page,
  collector,
}) => {
  const file = join(collector.folder, "old-session.jsonl");
  writeFileSync(file, session());
  collector.cli("import", file);
  const printed = /≥~\$\d+\.\d\d/.exec(collector.cli("runs"))?.[0] ?? "";
  expect(printed).not.toBe("");
  const shown = printed.replace("≥~", "≥ ~");
  const runs = page.getByRole("region", { name: "Runs", exact: true });
  await open(page, collector);
  for (const text of [shown, "29 days ago", "claude-sonnet-4-5", "rockets", "fins"])
    await expect(runs.getByRole("link")).toContainText(text);
  await open(page, collector, "#/?within=24h");
  await expect(runs).toContainText("0 of 1 runs");
  await open(page, collector);
  await runs.getByRole("link").click();
  const header = page.getByRole("region", { name: "Summary" });
  for (const text of [shown, "29 days ago", "claude-sonnet-4-5", "rockets", "fins"])
    await expect(header).toContainText(text);
  await page.goto(`${page.url()}?view=tree`);
  await expect(page.locator(".tree")).toContainText(shown);
});
