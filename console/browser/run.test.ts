import { expect, move, open, said, start, test } from "./collector";

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
    told("r", "Began", { what: "run", task: "mend the basket" }, 1),
    told("r", "Said", { role: "user", blocks: [{ type: "text", text: "please **mend** it" }] }, 2),
    told("r", "Called", { tool: "Bash", call_id: "c1", input: { command: "ls" } }, 3),
    told("r", "Returned", { tool: "Bash", call_id: "c1", ok: false, error: "no such file", seconds: 2 }, 4),
    told("r", "Said", { role: "assistant", blocks: [{ type: "thinking", thinking: "hm, odd" }, { type: "text", text: "done" }] }, 5),
    told("r", "Ended", { what: "run", outcome: "end_turn", passed: true }, 6),
  ]);
  await open(page, collector, "#/run/tracklog/r");
  const feed = page.getByRole("feed");
  await expect(feed.locator("strong", { hasText: "mend" })).toBeVisible();
  await expect(page.getByText("✓ proven")).toBeVisible();
  await expect(page.getByRole("region", { name: "Summary" })).toContainText("end_turn");
  await expect(feed.getByText("hm, odd")).toBeHidden();
  await feed.getByText("thought").click();
  await expect(feed.getByText("hm, odd")).toBeVisible();
  const call = feed.locator("details.call");
  await expect(call).toContainText("failed");
  await call.locator("summary").click();
  await expect(call).toContainText("no such file");
  await expect(feed).toContainText("reported");
  await page.getByRole("tab", { name: "timeline" }).click();
  const span = page.getByRole("button", { name: /Bash/ });
  await span.click();
  await expect(page.getByRole("complementary", { name: /Record 3/ })).toBeVisible();
  await page.getByRole("tab", { name: "transcript" }).click();
  await expect(page.locator("#e3")).toHaveClass(/chosen/);
  await page.getByText("Download").click();
  const otel = page.getByRole("link", { name: "otel" });
  const download = page.waitForEvent("download");
  await otel.click();
  expect((await download).suggestedFilename()).toBeTruthy();
});

test("a link to any event shows it, its very bytes, its cause and what came of it", async ({ page, collector }) => {
  const odd = '{"ts":"2026-05-05T09:00:00.000Z", "run_id":"r","event":"agent_run_start","agent_id":"coder","task":"t","n":1.0,"x":"\\u00e9"}';
  await fetch(`${collector.url}/api/events/kahn-agent`, {
    method: "POST",
    headers: { "Content-Type": "application/x-ndjson" },
    body: `${odd}\n`,
  });
  await collector.post("kahn-agent", [move("r", "thinking", "tool_call"), move("r", "tool_call", "tool_result")]);
  await open(page, collector, "#/run/kahn/r?seq=1");
  await expect(page.getByTestId("raw")).toHaveText(odd);
  await expect(page.getByText("What came of it")).toBeVisible();
  await open(page, collector, "#/run/kahn/r?seq=3");
  await expect(page.getByRole("complementary", { name: "Record 3" })).toContainText("Because of");
});

test("the slider shows the run as it was", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r"), move("r", "thinking", "failed"), start("r")]);
  await open(page, collector, "#/run/kahn/r");
  await expect(page.getByRole("feed")).toContainText("failed");
  await page.getByLabel("moment").focus();
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
});

test("sub-runs are a tree that leads to them", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("above"), { ...start("below"), parent_run_id: "above" }]);
  await open(page, collector, "#/run/kahn/above?view=tree");
  await page.getByRole("tabpanel").getByRole("link", { name: "below" }).click();
  await expect(page.getByRole("region", { name: "Summary" })).toContainText("kahn:below");
});

test("who reads a live run is not moved, and is told how much is new", async ({ page, collector }) => {
  const lines = Array.from({ length: 200 }, (_, n) => said("talk", `line ${n}`, n));
  await collector.post("fishbowl", lines);
  await open(page, collector, "#/run/fishbowl/talk");
  const feed = page.getByRole("feed");
  await expect(feed).toContainText("line 3");
  await feed.evaluate((box) => (box.scrollTop = 2000));
  await page.waitForTimeout(600);
  const see = () => feed.evaluate((box) => {
    const top = box.getBoundingClientRect().top;
    const found = [...box.querySelectorAll("article")].find((each) => each.getBoundingClientRect().top >= top);
    return [found?.id, Math.round((found?.getBoundingClientRect().top ?? 0) - top)];
  });
  const before = await see();
  for (let n = 0; n < 5; n++) await collector.post("fishbowl", [said("talk", `fresh ${n}`, 300 + n)]);
  await expect(page.getByRole("button", { name: "5 new" })).toBeVisible();
  expect(await see()).toEqual(before);
  await page.getByRole("button", { name: "5 new" }).click();
  await expect(feed).toContainText("fresh 4");
  await expect(page.getByRole("button", { name: /new/ })).toHaveCount(0);
});

test("[BOWL-22] the stage shows scene, cast, notes of any kind, and the verdict", async ({ page, collector }) => {
  const one = said("bowl", "x");
  const cast = { cara: { model_endpoint: "model://c" }, bex: { model_endpoint: null } };
  await collector.post("fishbowl", [
    { ...one, id: "1", kind: "run.started", actor: "conductor", payload: { seed: "s", goal: "find the cat", scenario: "kitchen", cast, competition: { kind: "judged" } } },
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
    await collector.post("fishbowl", [...common, run === "a" ? "left" : "right"].map((text, n) => said(run, text, n)));
  await open(page, collector, "#/diff?a=fishbowl:a&b=fishbowl:b");
  await expect(page.locator("tr.first")).toBeInViewport();
  await expect(page.locator("tr.first")).toContainText("right");
});

test("search finds what was said, marks it, filters it and leads to the place", async ({ page, collector }) => {
  await collector.post("fishbowl", [said("talk", "the connection was refused")]);
  await collector.post("kahn-agent", [start("other", "coder", "a connection to mend")]);
  await open(page, collector);
  await expect(page.getByRole("region", { name: "Runs" })).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("connection");
  await page.keyboard.press("Enter");
  await expect(page.locator("mark")).toHaveCount(2);
  await page.getByLabel("dialect").selectOption("fishbowl");
  await expect(page.locator("mark")).toHaveCount(1);
  expect(page.url()).toContain("dialect=fishbowl");
  await page.getByRole("link", { name: /talk/ }).click();
  await expect(page.getByRole("complementary", { name: "Record 1" })).toBeVisible();
});
