import type { Page } from "@playwright/test";
import { type Collector, expect, now, open, settled, start, test } from "./collector";
import { story } from "./story";

/** A run that spends, calls, fails and ends; at is hours ago. */
const work = (run: string, hours: number, more: { model?: string; ok?: boolean; passed?: boolean } = {}) => {
  const { model = "claude-sonnet-4-5", ok = true, passed = true } = more;
  const at = (n: number) => new Date(Date.now() - hours * 3_600_000 + n * 1000).toISOString();
  const line = (n: number, fact: string, rest: object) => ({
    id: `${run}-${n}`,
    run,
    at: at(n),
    fact,
    agent: "coder",
    origin: { writer: "t", fidelity: "reconstructed" },
    ...rest,
  });
  return [
    line(0, "Began", { what: "run", task: run }),
    line(1, "Said", { role: "user", blocks: [{ type: "text", text: "go" }] }),
    line(4, "Said", { role: "assistant", model, blocks: [{ type: "text", text: "so" }] }),
    line(4, "Spent", { key: `${run}-s`, model, usage: { input_tokens: 1_000_000, output_tokens: 10_000 } }),
    line(5, "Called", { tool: "Bash", call_id: `${run}-c` }),
    line(6, "Returned", { call_id: `${run}-c`, ok }),
    line(9, "Ended", { what: "run", outcome: passed ? "done" : "failed", passed }),
  ].map((each, n) => ({ ...each, id: `${run}-${n}` }));
};

interface Series {
  metric: string;
  total: number | null;
  keys: { key: string | null; sum: number | null }[];
}

/** What the command line says of a metric. */
function series(collector: Collector, metric: string, ...more: string[]): Series {
  return JSON.parse(collector.cli("series", "--metric", metric, "--json", ...more)) as Series;
}

async function fill(collector: Collector): Promise<void> {
  await collector.post("tracklog", [
    ...work("one", 1),
    ...work("two", 2, { ok: false, passed: false }),
    ...work("three", 30, { model: "claude-opus-4-1" }),
    ...work("four", 31, { model: "gpt-5-mini" }),
  ]);
}

const kpi = (page: Page, name: string) =>
  page.getByRole("navigation", { name: "Figures of this range" }).getByRole("link", { name: new RegExp(`^${name}`) });
const card = (page: Page, name: string) => page.getByRole("region", { name, exact: true });

test("the strip of figures says what the command line says, in every range, and leads to its chart", async ({
  page,
  collector,
}) => {
  await fill(collector);
  for (const since of ["-24h", "-7d", ""]) {
    await open(page, collector, `#/${since ? `?since=${since}` : ""}`);
    const range = ["--since", since || "all"];
    const total = (metric: string, ...more: string[]) => series(collector, metric, ...range, ...more).total ?? 0;
    await expect(kpi(page, "Runs")).toContainText(String(total("runs")));
    await expect(kpi(page, "Cost")).toContainText(`$${total("cost").toFixed(2)}`);
    await expect(kpi(page, "Cost")).toContainText("~");
    await expect(kpi(page, "Tokens")).toContainText(`${Number((total("tokens") / 1e6).toPrecision(3))}M`);
    await expect(kpi(page, "Tool failures")).toContainText(`${total("failures")} of ${total("calls")} calls`);
    const outcomes = series(collector, "runs", ...range, "--by", "outcome").keys;
    const sum = (name: string) => outcomes.find((each) => each.key === name)?.sum ?? 0;
    await expect(kpi(page, "Passed")).toContainText(
      `${sum("done")} of ${sum("done") + sum("failed") + sum("lost")} ended`,
    );
  }
  await open(page, collector, "#/");
  for (const width of [1440, 1200, 1024]) {
    await page.setViewportSize({ width, height: 760 });
    await kpi(page, "Cost")
      .locator(".figure")
      .evaluate((figure) => figure.replaceChildren("≥ $1,234.56"));
    const cut = await page.getByRole("navigation", { name: "Figures of this range" }).evaluate((strip) => ({
      strip: strip.scrollWidth - strip.clientWidth,
      figures: [...strip.querySelectorAll(".kpi")].map((each) => each.scrollWidth - each.clientWidth),
    }));
    expect(cut, `${width}`).toEqual({ strip: 0, figures: Array(7).fill(0) });
  }
  await open(page, collector, "#/?since=-24h&agent=coder");
  await kpi(page, "Tokens").click();
  await expect(page).toHaveURL(/#\/insights\?since=-24h&agent=coder&metric=tokens/);
  await expect(page.getByRole("img", { name: /^Tokens: / }).first()).toBeVisible();
});

test("the share that passed is that of the panel of ralph's runs, for all five outcomes", async ({
  page,
  collector,
}) => {
  const outcomes = ["clean", "clean_with_flake", "partial", "stuck", "catastrophic"];
  const line = (run_id: string, event: string, more: object) => ({ ts: now(), run_id, event, ...more });
  await collector.post(
    "ralph",
    outcomes.flatMap((outcome) => [
      line(outcome, "run_start", { total_nodes: 1, actor: "rocky" }),
      line(outcome, "run_end", {
        outcome,
        done: 1,
        failed: 0,
        blocked: 0,
        total_duration_s: 1,
        ...(outcome.startsWith("clean") ? {} : { exit_code: 1 }),
      }),
    ]),
  );
  await open(page, collector, "#/?since=-24h");
  await expect(kpi(page, "Passed")).toContainText("40 %");
  await expect(kpi(page, "Passed")).toContainText("2 of 5 ended");
  await open(page, collector, "#/dash/ralph-runs");
  await expect(page.getByText("passed: 2 of 5")).toBeVisible();
});

test("the charts say what the command line says, for any split and filter, and the range is in the address", async ({
  page,
  collector,
}) => {
  await fill(collector);
  await open(page, collector, "#/insights");
  await settled(page);
  const cost = series(collector, "cost", "--by", "model", "--since", "-7d");
  await expect(card(page, "Cost")).toContainText(`~$${(cost.total ?? 0).toFixed(2)}`);
  for (const { key } of cost.keys) await expect(card(page, "Cost")).toContainText(key ?? "");
  await expect(card(page, "Runs")).toContainText("4");
  await expect(card(page, "Runs")).toContainText("done 3");
  await expect(card(page, "Runs")).toContainText("failed 1");
  await expect(card(page, "Failed calls")).toContainText("25 %");
  const failed = series(collector, "failures", "--by", "tool", "--since", "-7d");
  expect(failed.keys.length).toBeGreaterThan(0);
  for (const { key, sum } of failed.keys) await expect(card(page, "Failed calls")).toContainText(`${key} ${sum}`);
  const runs = card(page, "Most expensive runs").getByRole("listitem");
  await expect(runs).toHaveCount(4);
  await expect(runs.first()).toContainText("three");
  // As a table every figure can be read and taken along.
  await page.keyboard.press("t");
  const table = page.getByRole("region", { name: "Cost, as a table" });
  await expect(table.getByRole("columnheader", { name: "claude-opus-4-1" })).toBeVisible();
  await expect(table.getByRole("link", { name: "CSV" })).toHaveAttribute("download", "cost.csv");
  await page.keyboard.press("t");
  await expect(table).toHaveCount(0);
  await page.getByRole("button", { name: "Project", exact: true }).click();
  await expect(page).toHaveURL(/by=project/);
  await page.getByRole("button", { name: "24 h", exact: true }).click();
  await expect(page).toHaveURL(/since=-24h/);
  await expect(card(page, "Runs")).toContainText("done 1");
  await page.reload();
  await expect(card(page, "Runs")).toContainText("done 1");
});

test("a part of the time is brushed by keys and by the pointer, and applied to every chart", async ({
  page,
  collector,
}) => {
  await fill(collector);
  await open(page, collector, "#/insights");
  const chart = page.getByRole("img", { name: /^Cost: / });
  await expect(chart).toBeVisible();
  await page.keyboard.press("[");
  await expect(page.getByRole("button", { name: /Zoom in/ })).toBeVisible();
  for (let n = 0; n < 3; n++) await page.keyboard.press("[");
  await expect(card(page, "Cost")).toContainText(/2 runs in it/);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("button", { name: /Zoom in/ })).toHaveCount(0);
  const box = await chart.boundingBox();
  if (!box) throw new Error("no chart");
  await page.mouse.move(box.x + box.width * 0.7, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 12, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await expect(page.getByRole("button", { name: /Zoom in/ })).toBeVisible();
  await page.keyboard.press("z");
  await expect(page).toHaveURL(/since=\d{4}-.*until=\d{4}-/);
  await page.goBack();
  await expect(page).toHaveURL(/#\/insights$/);
});

test("a part that cannot be answered says so, offers to try again, and the rest works", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r")]);
  let broken = true;
  await page.route("**/api/series?*", (route) =>
    broken
      ? route.fulfill({ status: 500, json: { error: "the disk is full", hint: "free some room" } })
      : route.continue(),
  );
  await open(page, collector);
  await expect(page.getByRole("alert")).toContainText("the disk is full");
  await expect(page.getByRole("link", { name: /^t r$/ })).toBeVisible();
  broken = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(kpi(page, "Runs")).toContainText("1");
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("what was not answered yet is neither none nor zero", async ({ page, collector }) => {
  await collector.post("tracklog", story("r"));
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/api/series?*", async (route) => {
    await released;
    await route.continue();
  });
  await open(page, collector, "#/insights");
  const main = page.getByRole("main");
  await expect(main).toContainText("Repair r");
  await expect(main).not.toContainText("No turn was recorded");
  await expect(main.getByText("Cost per day")).toHaveCount(0);
  release();
  await expect(main).toContainText("Cost per day");
});

test("a browser in the POSIX locale shows the charts", async ({ page, collector }) => {
  await page.addInitScript(() =>
    Object.defineProperty(navigator, "language", { value: "en-US@posix", configurable: true }),
  );
  await fill(collector);
  await open(page, collector, "#/insights");
  await expect(card(page, "Cost")).toBeVisible();
});
