/** Every page, in both themes and on every screen: loaded once, looked at in each. */

import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { asks, type Collector, expect, move, open, said, settled, start, test, tooWide } from "./collector";
import { story } from "./story";

const SCREENS = [
  [1440, 900],
  [1024, 768],
  [390, 844],
] as const;
/** Beyond the screens of a desk and of a phone: nothing scrolls sideways, and letters are of this size at least. */
const EXTREMES = [
  [360, 740, 15],
  [3840, 2160, 18],
] as const;

const PLACES = {
  "Fleet, Insights and Settings": [
    "#/",
    "#/?group=project&cols=id&cols=source&cols=outcome&sort=cost&status=done&status=working&status=failed&status=waiting",
    "#/insights",
    "#/dash/ralph-runs",
    "#/settings",
    "#/settings/alerts",
  ],
  "Inbox, Search and Compare": [
    "#/inbox",
    "#/search?q=port",
    "#/compare",
    "#/compare/tracklog:r/tracklog:s",
    "#/diff?a=kahn:r&b=fishbowl:talk",
    "#/run/kahn/nobody",
  ],
  "The tabs of a run": [
    "#/run/tracklog/r?seq=10",
    "#/run/tracklog/r/waterfall?seq=9",
    "#/run/tracklog/r/topology",
    "#/run/tracklog/r/topology?list=1",
    "#/run/tracklog/r/cost",
    "#/run/tracklog/r/records",
  ],
  "The tabs of other runs": [
    "#/run/kahn/r",
    "#/run/kahn/r?view=timeline",
    "#/run/tracklog/steps?view=timeline",
    "#/run/kahn/r?view=lifecycle",
    "#/run/kahn/r?view=findings",
    "#/run/fishbowl/talk?view=stage",
  ],
};

async function fill(collector: Collector): Promise<void> {
  await collector.post("tracklog", [...story("r"), ...story("s")]);
  const call = {
    ts: new Date().toISOString(),
    run_id: "r",
    event: "tool_invocation",
    agent_id: "coder",
    step: 0,
    tool_name: "Read",
    duration_s: 1,
    ok: false,
    usage: { input_tokens: 9 },
    cost_usd: 0.1,
    model: "m",
  };
  await collector.post("kahn-agent", [start("r"), call, asks("r", "Which port?"), move("r", "thinking", "converged")]);
  const step = (id: string, fact: string, at: string, more: object = {}) => ({
    id,
    run: "steps",
    at,
    fact,
    agent: "main",
    what: "step",
    step: "build",
    origin: { writer: "t", fidelity: "observed" },
    ...more,
  });
  await collector.post("tracklog", [
    step("1", "Began", "2026-05-05T09:00:00Z"),
    step("2", "Ended", "2026-05-05T09:01:00Z", { passed: true }),
  ]);
  await collector.post("fishbowl", [
    { ...said("talk", "x"), kind: "world.observed" },
    said("talk", "a port is a **place**"),
  ]);
}

/** The faults of the page as it is; in the other theme only contrast can be another one. */
async function faults(page: Page, theme: "light" | "dark"): Promise<string[]> {
  const builder = new AxeBuilder({ page }).setLegacyMode(true); // there are no frames, so no second page is needed
  if (theme === "dark") builder.withRules(["color-contrast"]);
  const { violations } = await builder.analyze();
  return violations.map((each) => `${each.id}: ${each.nodes[0]?.html}`);
}

async function look(page: Page, place: string): Promise<void> {
  for (const [width, height] of SCREENS) {
    await page.setViewportSize({ width, height });
    for (const theme of ["light", "dark"] as const) {
      await page.evaluate((each) => {
        document.documentElement.dataset.theme = each; // as the button does, without a reload
      }, theme);
      expect(await faults(page, theme), `${place}, ${width} pixels, ${theme}`).toEqual([]);
    }
    expect(await tooWide(page), `${place}, ${width} pixels`).toEqual([]);
  }
}

for (const [name, places] of Object.entries(PLACES))
  test(`${name}: no fault for those who see, hear or move otherwise, in both themes on every screen`, async ({
    page,
    collector,
  }) => {
    test.setTimeout(400_000); // many pages; nothing in it waits so long
    await page.emulateMedia({ reducedMotion: "reduce" });
    await fill(collector);
    for (const place of places) {
      await open(page, collector, place);
      await settled(page);
      await look(page, place);
      for (const [width, height, least] of EXTREMES) {
        await page.setViewportSize({ width, height });
        expect(await tooWide(page), `${place}, ${width} pixels`).toEqual([]);
        const size = await page.evaluate(() => parseFloat(getComputedStyle(document.documentElement).fontSize));
        expect(size).toBeGreaterThanOrEqual(least);
      }
      await page.setViewportSize({ width: 1440, height: 900 });
    }
    if (!places.includes("#/settings")) return;
    await page.keyboard.press("Control+k");
    await expect(page.getByRole("dialog", { name: "Command palette" })).toBeVisible();
    await look(page, "the palette");
  });
