import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { asks, Collector, expect, firstArticle, move, now, open, press, rowsOf, said, start, test } from "./collector";

test("the first thing on the page is the agent that waits for a person", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("busy"), start("stuck"), asks("stuck", "Which port?")]);
  await open(page, collector);
  const question = page.getByRole("heading", { name: "Which port?" });
  await expect(question).toBeVisible();
  expect(await firstArticle(page)).toContain("Which port?");
  await expect(page).toHaveTitle("(1) tracklog");
});

test("an empty collector offers the logs of agents on this machine, and imports what is chosen", async ({ page }) => {
  const collector = new Collector();
  const user = join(collector.folder, "user");
  const folder = join(user, ".claude", "projects", "-src-shop");
  mkdirSync(folder, { recursive: true });
  const line = {
    type: "user",
    uuid: "11111111-1111-4111-8111-111111111111",
    parentUuid: null,
    sessionId: "22222222-2222-4222-8222-222222222222",
    cwd: "/src/shop",
    version: "2.0.0",
    timestamp: new Date().toISOString(),
    message: { role: "user", content: "Fix the basket" },
  };
  writeFileSync(join(folder, "22222222-2222-4222-8222-222222222222.jsonl"), `${JSON.stringify(line)}\n`);
  const { HOME } = process.env;
  process.env.HOME = user;
  await collector.start();
  process.env.HOME = HOME;
  await open(page, collector);
  await expect(page.getByText("Nothing was recorded yet.")).toBeVisible();
  await page.getByRole("button", { name: "Import 1 session" }).click();
  await expect(page.getByRole("link", { name: /Fix the basket/ })).toBeVisible();
  await collector.close();
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
  // Who waits stands above the list, and is in it only where one asks for it.
  await expect(page.getByRole("region", { name: "Waiting for you" }).getByRole("article")).toContainText("May I?");
  await expect(rows).toHaveCount(2);
  await expect(rows.nth(0)).toContainText("busy");
  await expect(rows.nth(1)).toContainText("broken");
  await open(page, collector, "#/?group=none&sort=title&dir=desc");
  await expect(rows).toHaveCount(3);
  await open(page, collector, "#/?status=waiting");
  await expect(rows).toHaveCount(1);
  await expect(rows.nth(0)).toContainText("asking");
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
  await press(page, "g", "i");
  await collector.post("kahn-agent", [move("fresh", "thinking", "tool_call")]);
  await expect(page.getByRole("region", { name: "Agents at work" })).toContainText("tool_call");
  await press(page, "g", "f");
  await expect(page.getByRole("link", { name: /Repair it/ })).toBeVisible();
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
  await expect(page.getByRole("region", { name: "Waiting for you" })).toContainText("May I?");
  await page.getByRole("checkbox", { name: /^waiting/ }).check();
  await expect(rowsOf(page)).toContainText("waiting");
});

test("every filter is in the address, and the address is the filter", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("one", "coder"), start("two", "tester")]);
  await collector.post("fishbowl", [said("talk", "hello")]);
  await open(page, collector);
  const runs = page.getByRole("region", { name: "Runs", exact: true });
  await expect(runs.getByRole("link")).toHaveCount(3);
  const choose = (facet: string, value: RegExp) =>
    page.getByRole("group", { name: facet }).getByRole("checkbox", { name: value });
  await choose("Source", /^kahn-agent/).check();
  await expect(runs.getByRole("link")).toHaveCount(2);
  await choose("Agent", /^tester/).check();
  await expect(runs.getByRole("link")).toHaveCount(1);
  expect(page.url()).toContain("source=kahn-agent");
  await choose("Agent", /^coder/).check(); // values of one facet widen
  await expect(runs.getByRole("link")).toHaveCount(2);
  await choose("Agent", /^coder/).uncheck();
  await page.reload();
  await expect(runs.getByRole("link")).toHaveCount(1);
  await expect(runs.getByRole("link")).toContainText("two");
  // A filter is no place to come back to; a page is.
  await press(page, "g", "n");
  await expect(page).toHaveURL(/inbox/);
  await page.goBack();
  await expect(runs.getByRole("link")).toHaveCount(1);
  await expect(choose("Agent", /^tester/)).toBeChecked();
  await choose("Agent", /^tester/).click({ modifiers: ["Alt"] });
  await expect(runs.getByRole("link")).toHaveCount(1);
  await expect(runs.getByRole("link")).toContainText("one");
  expect(page.url()).toContain("agent=%21tester");
  await open(page, collector, "#/?text=nothing-has-this");
  await expect(runs).toContainText("0 of 3 runs");
  await expect(runs).toContainText("No run passes this filter.");
  await page.getByRole("button", { name: "Drop the filter by text" }).click();
  await expect(runs.getByRole("link")).toHaveCount(3);
  await collector.post("kahn-agent", [move("two", "thinking", "failed")]);
  const narrowed = async (facet: string, value: RegExp, name: string, part: string) => {
    await choose(facet, value).check();
    await expect(runs.getByRole("link")).toHaveCount(1);
    await expect(runs.getByRole("link")).toContainText(name);
    expect(page.url()).toContain(part);
    await page.getByTitle("remove this filter").click();
    await expect(runs.getByRole("link")).toHaveCount(3);
  };
  await narrowed("Status", /^failed/, "two", "status=failed");
  await narrowed("Source", /^fishbowl/, "talk", "source=fishbowl");
  await page.getByLabel("Filter by text").fill("one");
  await expect(runs.getByRole("link")).toHaveCount(1);
  expect(page.url()).toContain("text=one");
  await open(page, collector, "#/?within=1h&outcome=converged"); // an address of an older version
  await expect(runs).toContainText("0 of 3 runs");
  await expect(page.getByRole("button", { name: "1 h", exact: true })).toHaveAttribute("aria-pressed", "true");
  await page.getByRole("button", { name: "Drop the filter by outcome" }).click();
  await expect(runs.getByRole("link")).toHaveCount(3);
  await open(page, collector, "#/?text=two&status=failed&dialect=kahn-agent");
  await expect(runs.getByRole("link")).toHaveCount(1);
});

test("every head sorts, by pointer and by key, and says how; groups close", async ({ page, collector }) => {
  await collector.post("kahn-agent", [
    start("b", "coder", "beta"),
    start("a", "coder", "alpha"),
    start("c", "coder", "gamma"),
  ]);
  await open(page, collector);
  const titles = () => rowsOf(page).getByRole("link").allInnerTexts();
  const names = async () => (await titles()).map((each) => each.split("\n")[0]?.trim().split(" ")[0]);
  await expect.poll(names).toEqual(["gamma", "alpha", "beta"]);
  const head = page.getByRole("columnheader", { name: /^Run/ });
  await expect(page.getByRole("columnheader", { name: /^Active/ })).toHaveAttribute("aria-sort", "descending");
  await head.getByRole("button").click();
  await expect(head).toHaveAttribute("aria-sort", "ascending");
  await expect.poll(names).toEqual(["alpha", "beta", "gamma"]);
  expect(page.url()).toContain("sort=title");
  await page.keyboard.press("Shift+S");
  await expect(head).toHaveAttribute("aria-sort", "descending");
  await expect.poll(names).toEqual(["gamma", "beta", "alpha"]);
  await page.reload();
  await expect.poll(names).toEqual(["gamma", "beta", "alpha"]);
  for (const each of await page.getByRole("columnheader").getByRole("button").all()) {
    await each.click();
    await expect(rowsOf(page)).toHaveCount(3);
  }
  const before = await page.locator('[aria-sort="ascending"], [aria-sort="descending"]').innerText();
  await page.keyboard.press("s");
  await expect(page.locator('[aria-sort="ascending"], [aria-sort="descending"]')).not.toHaveText(before);
  await page.getByRole("button", { name: /^Working 3/ }).click();
  await expect(rowsOf(page)).toHaveCount(0);
  await page.getByRole("search").getByLabel("Group", { exact: true }).selectOption("none");
  await expect(rowsOf(page)).toHaveCount(3);
  expect(page.url()).toContain("group=none");
});

test("columns that were asked for sort by what they show; on a phone one sorts and groups, too", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("a", "zoe", "first"), start("b", "amy", "second")]);
  await collector.post("fishbowl", [said("c", "third")]);
  await open(page, collector, "#/?group=none&cols=source&cols=agents");
  const cells = (column: string) => rowsOf(page).locator(`.c-${column}`).allInnerTexts();
  for (const [name, column] of [
    ["Source", "source"],
    ["Agents", "agents"],
  ] as const) {
    await page
      .getByRole("columnheader", { name: new RegExp(`^${name}`) })
      .getByRole("button")
      .click();
    await expect(page.getByRole("columnheader", { name: new RegExp(`^${name}`) })).toHaveAttribute(
      "aria-sort",
      "ascending",
    );
    await expect.poll(async () => (await cells(column)).join()).toBe([...(await cells(column))].sort().join());
    expect(new Set(await cells(column)).size).toBeGreaterThan(1);
  }
  await page.setViewportSize({ width: 390, height: 844 });
  await open(page, collector);
  await page.getByRole("button", { name: "Filters" }).click();
  const filters = page.getByRole("complementary", { name: "Filters" });
  await filters.getByLabel("Sort").selectOption("Run");
  await expect(page).toHaveURL(/sort=title/);
  await filters.getByLabel("Group").selectOption("none");
  await expect(page).toHaveURL(/group=none/);
  await filters.getByRole("button", { name: "Ascending" }).click();
  await expect(page).toHaveURL(/dir=desc/);
});

test("failures that were seen are folded away, by key, by button and all at once, until they fail again", async ({
  page,
  collector,
}) => {
  const names = ["one", "two", "three", "four"];
  await collector.post(
    "kahn-agent",
    names.flatMap((name) => [start(name, "coder", `Repair ${name}`), move(name, "thinking", "failed")]),
  );
  await open(page, collector);
  const table = page.getByRole("table", { name: "Runs" });
  await expect(table).toContainText("Failed or lost, not seen 4");
  await press(page, "j", "e");
  await expect(table).toContainText("Failed or lost, not seen 3");
  await expect(table).toContainText("1 seen is folded away");
  const row = rowsOf(page).filter({ hasText: "Repair two" });
  await row.hover();
  await row.getByRole("button", { name: /Seen/ }).click();
  await expect(table).toContainText("2 seen are folded away");
  await expect(row).toHaveCount(0);
  await page.getByRole("status").getByRole("button", { name: "Undo" }).last().click();
  await expect(row).toHaveCount(1);
  await table.getByRole("button", { name: "Mark all seen" }).click();
  await expect(rowsOf(page)).toHaveCount(0);
  await table.getByRole("button", { name: /Failed or lost, seen 4/ }).click();
  await expect(rowsOf(page)).toHaveCount(4);
  const seen = collector.cli("runs", "--seen", "yes", "--json");
  expect(seen.trim().split("\n")).toHaveLength(4);
  await collector.post("kahn-agent", [move("one", "failed", "thinking"), move("one", "thinking", "failed")]);
  await page.getByRole("button", { name: "1 new" }).click();
  await expect(table).toContainText("Failed or lost, not seen 1");
  await open(page, collector, "#/?seen=no");
  await expect(rowsOf(page)).toHaveCount(1);
  // Boxes with shift select all between; those are seen together.
  await open(page, collector, "#/?group=none&sort=title&dir=asc");
  await page.getByRole("checkbox", { name: "Select Repair four" }).check();
  await page.getByRole("checkbox", { name: "Select Repair three" }).click({ modifiers: ["Shift"] });
  await expect(page.getByText("3 selected")).toBeVisible();
});

test("runs are filtered by the tags and scores of people", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("a", "coder", "Repair a"), start("b", "coder", "Repair b")]);
  collector.cli("mark", "a", "--tag", "flaky", "--score", "0.4");
  await open(page, collector);
  await page.getByRole("group", { name: "Tag" }).getByRole("checkbox", { name: /flaky/ }).check();
  await expect(rowsOf(page)).toHaveCount(1);
  await expect(page).toHaveURL(/tag=flaky/);
  await open(page, collector);
  await page.getByLabel("Score to").fill("0.5");
  await expect(rowsOf(page)).toHaveCount(1);
  await expect(page).toHaveURL(/score=\.\.0\.5/);
  await page.getByLabel("Score from").fill("0.45");
  await expect(page.getByText("No run passes this filter.")).toBeVisible();
});

test("nothing moves under the pointer: what is new waits until one asks for it", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("one"), start("two")]);
  await open(page, collector);
  await expect(rowsOf(page)).toHaveCount(2);
  await rowsOf(page).first().hover();
  await collector.post("kahn-agent", [start("three")]);
  await expect(page.getByRole("button", { name: "1 new" })).toBeVisible();
  await expect(rowsOf(page)).toHaveCount(2);
  await page.getByRole("button", { name: "1 new" }).hover();
  await collector.post("kahn-agent", [start("other")]);
  await page.getByRole("button", { name: "2 new" }).click();
  await expect(rowsOf(page)).toHaveCount(4);
  await page.mouse.move(2, 2);
  await page.keyboard.press("p");
  await expect(page.getByText("paused")).toBeVisible();
  await collector.post("kahn-agent", [start("four")]);
  await expect(page.getByRole("button", { name: "1 new" })).toBeVisible();
  await page.keyboard.press("p");
  await expect(rowsOf(page)).toHaveCount(5);
});

test("a choice is sent after five seconds, unless it is taken back", async ({ page, collector }) => {
  const asked = (run: string) => ({
    id: run,
    run,
    at: now(),
    fact: "Asked",
    agent: "coder",
    question_id: `q-${run}`,
    text: `May ${run}?`,
    options: ["Allow once", "Deny"],
    origin: { writer: "t", fidelity: "observed" },
  });
  await collector.post("tracklog", [asked("first"), asked("second")]);
  await page.clock.install(); // five seconds of the page, however slow the machine is
  await open(page, collector);
  const row = (run: string) => page.getByRole("article").filter({ hasText: `May ${run}?` });
  const answers = () =>
    (
      JSON.parse(collector.cli("inbox", "--json").trim().split("\n").join(",").replace(/^/, "[").concat("]")) as {
        question_id: string;
        state: string;
        answer: string | null;
      }[]
    ).map((each) => `${each.question_id} ${each.state} ${each.answer ?? ""}`.trim());
  await expect(row("first").getByRole("button", { name: "Deny" })).toBeVisible();
  await page.clock.pauseAt(Date.now() + 60_000);
  await row("first").getByRole("button", { name: "Deny" }).click();
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(row("first").getByRole("button", { name: "Deny" })).toBeVisible();
  await row("second").getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByRole("button", { name: "Undo" })).toBeVisible();
  await page.clock.runFor(4_900);
  expect(answers().sort()).toEqual(["q-first open", "q-second open"]);
  await page.clock.runFor(200);
  await page.clock.resume();
  await expect(row("second")).toContainText("answered by operator: Allow once");
  expect(answers().sort()).toEqual(["q-first open", "q-second answered Allow once"]);
});

test("the table and its facets say the same as the command line, in every range", async ({ page }) => {
  const collector = new Collector();
  await collector.start("demo");
  try {
    type Run = { run: string; title: string | null; status: string; tool_calls: number; tool_failures: number };
    const listed = (...more: string[]) =>
      collector
        .cli("runs", "--json", "--limit", "1000", ...more)
        .trim()
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Run);
    for (const since of ["", "-1h", "-24h", "-7d"]) {
      await open(page, collector, `#/?group=none&sort=calls${since ? `&since=${since}` : ""}`);
      await page.keyboard.press("p"); // the demo goes on
      await expect(rowsOf(page).first()).toBeVisible();
      await expect(async () => {
        const runs = listed(...(since ? ["--since", since] : []), "--sort", "calls");
        for (const status of ["waiting", "failed", "done"]) {
          const many = runs.filter((run) => run.status === status).length;
          const box = page
            .getByRole("group", { name: "Status" })
            .getByRole("checkbox", { name: new RegExp(`^${status}`) });
          await expect(box).toHaveAccessibleName(`${status} ${many}`, { timeout: 1_000 });
        }
        const busiest = runs[0];
        if (!busiest) return;
        const failed = busiest.tool_failures ? ` ${busiest.tool_failures}✕` : "";
        await expect(rowsOf(page).first().locator(".c-calls")).toHaveText(`${busiest.tool_calls}${failed}`, {
          timeout: 1_000,
        });
      }).toPass();
    }
  } finally {
    await collector.close();
  }
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
  await expect(page.getByRole("article")).toContainText("May I?");
  const main = page.locator("#main");
  await main.evaluate((box) => (box.scrollTop = box.scrollHeight));
  await expect(runs.getByRole("link", { name: /run-000/ })).toBeVisible();
  await expect(runs.getByRole("columnheader", { name: /^Run/ })).toBeInViewport(); // the heads stay
  await main.evaluate((box) => (box.scrollTop = 0));
  await expect(runs.getByRole("link", { name: /run-639/ })).toBeVisible();
  await expect(page.getByRole("article")).toBeInViewport();
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
  await open(page, collector, "#/insights");
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
  await open(page, collector, "#/insights");
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
    await expect(rowsOf(page)).toContainText(text);
  await open(page, collector, "#/?within=24h");
  await expect(runs).toContainText(/0 of 1 run\b/);
  await open(page, collector);
  await runs.getByRole("link").click();
  const header = page.getByRole("region", { name: "Summary" });
  for (const text of [shown, "claude-sonnet-4-5", "rockets", "fins"]) await expect(header).toContainText(text);
  await page.getByLabel("More about this run").click();
  await expect(page.getByText(/^29 days ago, /)).toBeVisible();
  await page.goto(`${page.url()}?view=tree`);
  await expect(page.locator(".tree")).toContainText(shown);
});
