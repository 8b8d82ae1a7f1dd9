import { Collector, expect, open, press, test } from "./collector";

test("a hosted run is begun, followed, answered and ended from here", async ({ page }) => {
  const collector = new Collector();
  await collector.start("serve", "--with", "openwop");
  try {
    await open(page, collector);
    const begin = page.getByRole("region", { name: "Start a run" });
    const summary = page.getByRole("region", { name: "Summary" });
    await begin.getByRole("combobox").selectOption("conformance-clarification");
    await begin.getByRole("button", { name: "Begin" }).click();
    await expect(page).toHaveURL(/#\/run\/openwop\//);
    await expect(summary).toContainText("waiting");
    await press(page, "g", "n");
    await page.getByLabel("Your answer").fill("blue");
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await expect(page.getByRole("article")).toContainText("answered");
    await page.getByRole("article").getByRole("link").first().click();
    await expect(summary).toContainText("completed");
    await expect(page.getByRole("button", { name: "End this run" })).toHaveCount(0);

    await open(page, collector);
    await page.getByText("Start a run").first().click(); // there are runs now
    await begin.getByRole("combobox").selectOption("conformance-cancellable");
    await begin.getByLabel("delayMs").fill("60000");
    await begin.getByRole("button", { name: "Begin" }).click();
    await expect(summary).toContainText("working");
    await page.getByRole("button", { name: "End this run" }).click();
    await expect(summary).toContainText("cancelled");
  } finally {
    await collector.close();
  }
});

test("a visitor's message appears on the stage", async ({ page, collector }) => {
  const line = (n: number, kind: string, payload: object) => ({
    id: `${n}`,
    run_id: "bowl",
    turn: n,
    kind,
    actor: "conductor",
    payload,
    created_at: new Date().toISOString(),
    schema_version: 1,
  });
  await collector.post("fishbowl", [
    line(0, "run.started", { seed: "s", goal: "g", scenario: "kitchen", cast: {} }),
    line(1, "world.observed", { text: "A dark kitchen." }),
  ]);
  await open(page, collector, "#/run/fishbowl/bowl?view=stage");
  await page.getByLabel("Say something to the agents").fill("Look under the table!");
  await page.getByRole("button", { name: "Say", exact: true }).click();
  await expect(page.getByRole("feed")).toContainText("Look under the table!");
});
