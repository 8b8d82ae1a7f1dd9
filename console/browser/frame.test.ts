import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { asks, Collector, expect, move, open, press, rowsOf, settled, start, test, Witness } from "./collector";

test("the palette opens runs, pages, records and agents by a few letters, and runs commands", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [
    start("a", "zoe", "Repair the basket"),
    start("b", "amy", "Paint the shed"),
    start("c", "eve", "Sew the sail"),
  ]);
  await open(page, collector);
  await settled(page);
  const palette = page.getByRole("dialog", { name: "Command palette" });
  const type = async (text: string) => {
    await expect(palette).toBeHidden(); // the same keys close one that is still there
    await page.keyboard.press("Control+k");
    await expect(palette).toBeVisible();
    await page.keyboard.type(text);
  };
  await type("se"); // a place has these letters, and so has a run, which stands first when it is there
  await expect(palette.getByRole("option", { selected: true })).toHaveText(/Sew the sail/);
  await page.keyboard.press("ArrowDown");
  await expect(palette.getByRole("option", { selected: true })).not.toHaveText(/Sew the sail/);
  await page.keyboard.press("Escape");
  await type("basket");
  await expect(palette.getByRole("option", { name: /Repair the basket/ })).toBeVisible();
  await expect(palette.getByRole("option", { name: /Paint the shed/ })).toHaveCount(0);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#\/run\/kahn\/a$/);
  await expect(palette).toBeHidden();
  await type("insights");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#\/insights/);
  await type("@amy");
  await expect(palette.getByRole("option", { name: "amy" })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/agent=amy/);
  await expect(rowsOf(page)).toHaveCount(1);
  await type("#2");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#\/run\/kahn\/b\?seq=2/);
  await type("checkpoints");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#\/settings\/witnesses/);
  await page.getByLabel("Find a setting").fill("shortcut");
  await expect(page.getByRole("navigation", { name: "Parts of the settings" }).getByRole("link")).toHaveText([
    "Keyboard",
  ]);
  await type("insights");
  await page.keyboard.press("Enter");
  await type(":7d");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#\/insights\?since=-7d/);
  const theme = await page.evaluate(() => document.documentElement.dataset.theme);
  await type(">dark");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).not.toBe(theme);
});

test("a view is saved under a name, shows its count, survives a reload, and can be forgotten", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("a", "zoe"), start("b", "amy")]);
  await open(page, collector, "#/?agent=amy&sort=title");
  await page.getByText("Save view", { exact: true }).click();
  await page.getByLabel("Name").fill("Runs of amy");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.reload();
  const stored = await fetch(`${collector.url}/api/views`);
  expect(await stored.json()).toEqual({
    views: [{ name: "Runs of amy", page: "", query: "agent=amy&sort=title" }],
  });
  await press(page, "g", "f");
  const views = page.getByRole("region", { name: "Saved views" });
  await expect(views.getByRole("link")).toHaveText(/Runs of amy\s*1/);
  await views.getByRole("link").click();
  await expect(page).toHaveURL(/agent=amy/);
  await expect(rowsOf(page)).toHaveCount(1);
  await views.getByRole("button", { name: "Forget the view Runs of amy" }).click();
  await expect(views).toContainText("Save a filter, and it is here.");
});

test("a hidden page tells of a question that begins to wait and of a run that fails, once, if it was asked to", async ({
  page,
  collector,
  context,
}) => {
  await context.grantPermissions(["notifications"], { origin: collector.url });
  await page.addInitScript(() => {
    const shown: string[] = [];
    Object.assign(window, { shown });
    class Shown {
      static permission = "granted";
      static requestPermission = () => Promise.resolve("granted");
      constructor(title: string) {
        shown.push(title);
      }
    }
    Object.assign(window, { Notification: Shown });
  });
  await collector.post("kahn-agent", [start("old", "coder", "Before"), move("old", "thinking", "failed")]);
  await open(page, collector, "#/settings/alerts");
  for (const name of ["Notify me", "Notify me of failures"])
    await page.getByRole("button", { name, exact: true }).click();
  await page.waitForResponse((response) => response.url().includes("seen=no"));
  await page.evaluate(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
  await collector.post("kahn-agent", [
    start("new", "coder", "Repair it"),
    move("new", "thinking", "failed"),
    start("asks", "coder", "Ask"),
    asks("asks", "Which port?"),
  ]);
  const shown = () => page.evaluate(() => (window as unknown as { shown: string[] }).shown.toSorted());
  await expect.poll(shown).toEqual(["Repair it failed", "Which port?"]);
});

test("tokens, prices, checkpoints: the settings change them, and the command line knows", async ({
  page,
  collector,
}) => {
  const at = new Date().toISOString();
  const call = { ts: at, run_id: "a", event: "tool_invocation", agent_id: "coder", step: 0, tool_name: "Read" };
  const usage = { input_tokens: 1_000_000, output_tokens: 0 };
  await collector.post("kahn-agent", [start("a"), { ...call, duration_s: 1, ok: true, model: "our-model", usage }]);
  await open(page, collector, "#/settings");
  const part = (name: string) => page.getByRole("region", { name, exact: true });
  await expect(part("Storage")).toContainText(/journal \d/);
  await part("Prices").getByRole("button", { name: "Set a price of our-model" }).click();
  await part("Prices").getByLabel("Input").fill("2.5");
  await part("Prices").getByLabel("Output").fill("10");
  await part("Prices").getByRole("button", { name: "Set the price" }).click();
  await expect(part("Prices").getByRole("row", { name: /our-model/ })).toContainText("yours");
  expect(collector.cli("costs", "--by", "model")).toContain("~$2.50");
  await part("Checkpoints").getByRole("button", { name: "Checkpoint now" }).click();
  await expect(part("Checkpoints")).toContainText(/\d records signed as tracklog\//);
  await expect(part("Alerts")).toContainText("tracklog alerts ready");
  await part("Access tokens").getByRole("button", { name: "New token" }).click();
  await part("Access tokens").getByLabel("Name").fill("me");
  await part("Access tokens").getByRole("button", { name: "Make the token" }).click();
  const token = (await part("Access tokens").locator("pre").textContent()) ?? "";
  expect(token).toMatch(/^tl_/);
  expect(collector.cli("token", "list")).toContain("me: admin");
  // Everybody is asked for a token now; this browser gave the one that it made.
  await open(page, collector, "#/settings/tokens");
  await page.getByRole("button", { name: "Revoke me" }).click();
  await expect(page.getByText("this is the last token of an administrator")).toBeVisible();
  expect(collector.cli("token", "list")).not.toContain("revoked");
});

test("an alert that fires is listed with its rule, and is silenced from the page", async ({ page }) => {
  const collector = new Collector();
  const rules = join(collector.folder, "alerts.yaml");
  writeFileSync(
    rules,
    `version: 1
to: {desk: {bell: true}}
rules:
  - {name: long-run, of: runs, when: {status: working}, for: 1h, to: [desk], summary: "{run} works"}
`,
  );
  await collector.start();
  await collector.post("kahn-agent", [start("busy")]);
  await collector.kill();
  await collector.start("serve", "--alerts", rules); // what is so at the first look fires at once
  try {
    await open(page, collector, "#/settings/alerts");
    const alerts = page.getByRole("region", { name: "Alerts", exact: true });
    await expect(alerts.getByRole("row", { name: /long-run/ })).toContainText("status is working, for 1 h");
    await alerts.getByRole("button", { name: "Silence long-run" }).click();
    await alerts.getByLabel("Reason").fill("a load test");
    await alerts.getByLabel("Your name").fill("ada");
    await alerts.getByRole("button", { name: "Silence it" }).click();
    await expect(alerts.getByRole("list", { name: "Silences" })).toContainText("by ada: a load test");
    await expect(alerts.getByRole("row", { name: /busy works/ })).toContainText("firing, silenced");
  } finally {
    await collector.close();
  }
});

test("single keys can be turned off, and the settings say what is not set up and by which command", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("a")]);
  await open(page, collector);
  await settled(page);
  await press(page, "g", "s");
  await expect(page).toHaveURL(/#\/settings/);
  await expect(page.getByRole("region", { name: "Sources" })).toContainText("kahn-agent");
  await expect(page.getByRole("region", { name: "Checkpoints" })).toContainText("tracklog checkpoint");
  await page.getByRole("checkbox", { name: /Single keys/ }).uncheck();
  await press(page, "g", "f");
  await expect(page).toHaveURL(/#\/settings/);
  await page.getByRole("checkbox", { name: /Single keys/ }).check();
  await press(page, "g", "f");
  await expect(page).toHaveURL(/#\/$/);
});

test("the inbox shows one question at a time, and the keys go through the list", async ({ page, collector }) => {
  await collector.post("kahn-agent", [
    start("r"),
    asks("r", "Which port?"),
    start("s"),
    asks("s", "Which host?", "q2"),
  ]);
  await open(page, collector, "#/inbox");
  const detail = page.getByRole("region", { name: "The chosen question" });
  await expect(detail.getByRole("heading", { level: 2 }).first()).toHaveText("Which port?");
  await page.keyboard.press("Escape"); // out of the box
  await page.keyboard.press("j");
  await expect(detail.getByRole("heading", { level: 2 }).first()).toHaveText("Which host?");
  await expect(detail).toContainText("What it stops");
  await page.keyboard.press("o"); // who goes through the list is in no box
  await expect(page).toHaveURL(/#\/run\/kahn\/s\?seq=/);
});

test("the recorder box says up to which record a witness vouches for the chain", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("a")]);
  await open(page, collector);
  const recorder = page.getByRole("region", { name: "Recorder" });
  await expect(recorder).toContainText("no witness");
  const witness = new Witness(collector.folder);
  try {
    await collector.kill("SIGTERM");
    const { key } = JSON.parse(collector.cli("checkpoint", "--json")) as { key: string };
    await collector.start("serve", "--witness", await witness.start(key), "--checkpoint-every", "0.1");
    await collector.post("kahn-agent", [start("b")]);
    await expect
      .poll(() =>
        fetch(`${collector.url}/api/settings/checkpoints`).then(async (r) => (await r.json()).witnesses.length),
      )
      .toBe(1);
    await page.reload();
    await expect(recorder).toContainText(/chain whole witnessed to #[23]/);
    await open(page, collector, "#/run/kahn/b");
    const badge = page.locator("summary.proof");
    await expect(badge).toContainText(/Proven to #[23] against .*, /);
    await badge.click();
    await expect(page.getByRole("list", { name: "Witnesses" }).getByRole("listitem")).toHaveCount(1);
    await expect(page.getByText(/not witnessed yet/)).toBeVisible();
  } finally {
    witness.stop();
  }
});
