/** Every page in both themes and four sizes, with the demo playing, as pictures in a folder. */

import { join } from "node:path";
import { Collector, expect, open, settled, test } from "./collector";

const FOLDER = process.env.SCREENSHOTS ?? "screenshots";
const SIZES = { "": [1440, 900], "-1024": [1024, 768], "-small": [390, 844], "-4k": [3840, 2160] } as const;

/** The run of the demo's review, whose id is another one each time. */
async function reviewOf(collector: Collector): Promise<string> {
  const runs = (await (await fetch(`${collector.url}/api/runs?limit=1000`)).json()) as {
    run: string;
    title: string | null;
  }[];
  return runs.find((run) => run.title === "review")?.run ?? "";
}

test("every page", async ({ page, browser }) => {
  test.setTimeout(900_000);
  await page.close();
  const collector = new Collector();
  await collector.start("demo");
  const review = await reviewOf(collector);
  const { records } = (await (await fetch(`${collector.url}/api/runs/kahn/release-2-4-1/story`)).json()) as {
    records: { seq: number }[];
  };
  const seq = records[9]?.seq ?? 0;
  const pages: Record<string, string> = {
    fleet: "#/",
    inbox: "#/inbox",
    insights: "#/insights",
    search: "#/search?q=cat",
    transcript: `#/run/awf/${review}`,
    record: `#/run/kahn/release-2-4-1?seq=${seq}`,
    waterfall: "#/run/kahn/coder-01/waterfall",
    lanes: "#/run/openwop/newsletter-45/waterfall?rows=agents",
    topology: "#/run/openwop/newsletter-45/topology",
    cost: "#/run/kahn/coder-01/cost",
    records: "#/run/kahn/coder-01/records",
    ralph: "#/run/kahn/rocky-018",
    lifecycle: "#/run/kahn/coder-01/lifecycle",
    findings: "#/run/kahn/docs-in-a-hurry/findings",
    tree: `#/run/awf/${review}/topology?list=1`,
    stage: "#/run/fishbowl/kitchen-1/stage",
    picture: "#/run/tracklog/conversation-1",
    missing: "#/run/kahn/nobody",
    compare: "#/compare/tracklog:conversation-1/tracklog:conversation-2",
    settings: "#/settings",
  };
  for (const theme of ["light", "dark"] as const)
    for (const [size, [width, height]] of Object.entries(SIZES)) {
      const shown = await browser.newPage({ viewport: { width, height }, colorScheme: theme });
      for (const [name, hash] of Object.entries(pages)) {
        await open(shown, collector, hash);
        await settled(shown);
        await shown.waitForTimeout(500); // so that what is drawn last is drawn
        await shown.screenshot({ path: join(FOLDER, `${name}-${theme}${size}.png`) });
        if (name === "fleet" && !size)
          await shown.screenshot({ path: join(FOLDER, `${name}-${theme}-whole.png`), fullPage: true });
      }
      await shown.close();
    }
  await collector.close();
});

test("the pictures of the README", async ({ page, browser }) => {
  test.setTimeout(300_000);
  await page.close();
  const collector = new Collector();
  await collector.start("demo");
  const review = await reviewOf(collector);
  const { records } = (await (await fetch(`${collector.url}/api/runs/awf/${review}/story`)).json()) as {
    records: { seq: number; words: string }[];
  };
  const failed = records.find((record) => record.words.includes("pytest"))?.seq ?? 0;
  const shown = await browser.newPage({ viewport: { width: 1200, height: 760 }, colorScheme: "light" });
  for (const [name, hash] of [
    ["console-fleet", "#/"],
    ["console-run", `#/run/awf/${review}?seq=${failed}`],
  ] as const) {
    await open(shown, collector, hash);
    await settled(shown);
    await expect(shown.locator('[aria-busy="true"]')).toHaveCount(0);
    await shown.waitForTimeout(500); // so that what is drawn last is drawn
    await shown.screenshot({ path: join(FOLDER, `${name}.png`) });
  }
  await shown.close();
  await collector.close();
});
