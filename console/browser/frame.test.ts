import AxeBuilder from "@axe-core/playwright";
import { asks, expect, move, open, press, rowsOf, settled, start, test } from "./collector";

test("the palette opens runs, pages, records and agents by a few letters, and runs commands", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("a", "zoe", "Repair the basket"), start("b", "amy", "Paint the shed")]);
  await open(page, collector);
  await settled(page);
  const palette = page.getByRole("dialog", { name: "Command palette" });
  const type = async (text: string) => {
    await page.keyboard.press("Control+k");
    await expect(palette).toBeVisible();
    await page.keyboard.type(text);
  };
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
  await expect(detail.getByRole("heading", { level: 3 }).first()).toHaveText("Which port?");
  await page.keyboard.press("Escape"); // out of the box
  await page.keyboard.press("j");
  await expect(detail.getByRole("heading", { level: 3 }).first()).toHaveText("Which host?");
  await expect(detail).toContainText("What it stops");
  await page.keyboard.press("Escape");
  await page.keyboard.press("o");
  await expect(page).toHaveURL(/#\/run\/kahn\/s\?seq=/);
});

for (const theme of ["light", "dark"] as const)
  test(`Settings, the palette and a saved view have no fault in ${theme} on any screen`, async ({
    page,
    collector,
  }) => {
    await page.emulateMedia({ colorScheme: theme });
    await collector.post("kahn-agent", [start("a"), asks("a", "Which port?")]);
    await open(page, collector);
    await page.evaluate(() =>
      localStorage.setItem("tracklog.views", JSON.stringify([{ name: "Failed", query: "status=failed" }])),
    );
    for (const [width, height] of [
      [1440, 900],
      [1024, 768],
      [390, 844],
    ] as const) {
      await page.setViewportSize({ width, height });
      await open(page, collector, "#/settings");
      await settled(page);
      const faults = async () =>
        (await new AxeBuilder({ page }).analyze()).violations.map(
          (each) => `${width}: ${each.id}: ${each.nodes[0]?.html}`,
        );
      expect(await faults()).toEqual([]);
      await page.keyboard.press("Control+k");
      await expect(page.getByRole("dialog", { name: "Command palette" })).toBeVisible();
      expect(await faults()).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth)).toBe(false);
    }
  });
