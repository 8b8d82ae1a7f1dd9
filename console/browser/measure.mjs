/** Opens the console in a real Chromium and prints what Chromium itself measured. */

import { chromium } from "@playwright/test";

const [, , url, part, seconds, records] = process.argv;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--enable-precise-memory-info",
    "--js-flags=--expose-gc",
  ],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
await page.addInitScript(() => {
  window.measured = { tasks: [], events: [], first: {}, slider: 0 };
  new PerformanceObserver((list) => window.measured.tasks.push(...list.getEntries().map((e) => e.duration))).observe({
    type: "longtask",
  });
  new PerformanceObserver((list) => window.measured.events.push(...list.getEntries().map((e) => e.duration))).observe({
    type: "event",
    durationThreshold: 16,
  });
  const look = () => {
    const slider = document.querySelector("#moment");
    if (slider && !window.measured.slider) window.measured.slider = Number(slider.max);
    for (const [name, where] of Object.entries({
      row: ".run a",
      header: "[aria-label=Summary]",
      entry: "article.entry",
      chosen: "article.chosen",
      charts: ".insights > :nth-child(6) canvas",
    }))
      if (!window.measured.first[name] && document.querySelector(where))
        window.measured.first[name] = performance.now();
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
const heap = () =>
  page.evaluate(() => {
    window.gc?.();
    return performance.memory.usedJSHeapSize / 1e6;
  });
const out = {};
/** Milliseconds from the last answer of a kind before something was drawn to that. */
const after = (drawn, path) =>
  page.evaluate(
    ([name, part]) => {
      const at = window.measured.first[name];
      const ends = performance.getEntriesByType("resource").filter((each) => each.name.includes(part));
      return at - Math.max(...ends.map((each) => each.responseEnd).filter((end) => end < at));
    },
    [drawn, path],
  );
/** Milliseconds from a press on the track of time to the record of that moment on the screen. */
const point = async (share) => {
  const track = await page.locator(".track").boundingBox();
  const began = Date.now();
  await page.mouse.click(track.x + track.width * share, track.y + 10);
  await page.waitForFunction(() => {
    const at = /at=(\d+)/.exec(location.hash)?.[1];
    return at && document.querySelector(`#e${at}`);
  });
  const took = Date.now() - began;
  await page.keyboard.press("l");
  await page.waitForFunction(() => !location.hash.includes("at="));
  return took;
};

if (part === "fleet") {
  await page.goto(`${url}/#/`);
  await page.waitForSelector(".run a");
  out.open = await page.evaluate(() => window.measured.first.row);
  out.paint = await after("row", "/api/board");
}
if (part === "insights") {
  await page.goto(`${url}/#/insights?since=-30d`);
  await page.waitForFunction(() => window.measured.first.charts);
  out.open = await page.evaluate(() => window.measured.first.charts);
  out.paint = await after("charts", "/api/series");
}
if (part === "long") {
  await page.goto(`${url}/#/run/fishbowl/long`);
  await page.waitForSelector("article.entry");
  out.first = await after("entry", "/story");
  out.header = await page.evaluate(() => window.measured.first.header);
  out.slider = await page.evaluate(() => window.measured.slider);
  out.early = await point(0.7); // most of it was not read yet
  await page.waitForFunction(
    (all) => document.querySelector(".tabs > [role=status]")?.textContent === `${all} records`,
    Number(records).toLocaleString("en"),
    { timeout: 120_000 },
  );
  await page.waitForTimeout(1000);
  out.read = await page.evaluate(() => Math.max(0, ...window.measured.tasks));
  out.point = Math.max(await point(0.2), await point(0.5), await point(0.9));
  const before = await heap();
  await page.evaluate(() => (window.measured.tasks = []));
  await page.hover(".transcript");
  for (let n = 0; n < 150; n++) {
    await page.mouse.wheel(0, n % 10 === 9 ? -40_000 : -700); // it goes on, so it opened at its end
    await page.waitForTimeout(16);
  }
  await page.waitForTimeout(300);
  out.task = await page.evaluate(() => Math.max(0, ...window.measured.tasks));
  out.grown = (await heap()) - before;
  out.heap = before;
}
if (part === "link") {
  await page.goto(`${url}/#/run/fishbowl/long?seq=40000`);
  await page.waitForSelector("#e40000");
  out.open = await page.evaluate(() => window.measured.first.chosen);
}
if (part === "news") {
  await page.goto(`${url}/#/run/fishbowl/news`);
  await page.waitForSelector("article.entry");
  const begin = Date.now();
  const end = begin + Number(seconds) * 1000;
  let early;
  while (Date.now() < end) {
    for (const key of ["j", "j", "k", "2", "1", "n"]) {
      await page.keyboard.press(key);
      await page.waitForTimeout(150);
    }
    await page.mouse.click(400, 600);
    await page.waitForTimeout(150);
    if (!early && Date.now() > begin + Number(seconds) * 250) early = await heap();
  }
  await page.waitForTimeout(500);
  out.slowest = await page.evaluate(() => Math.max(0, ...window.measured.events));
  out.interactions = await page.evaluate(() => performance.interactionCount ?? 0);
  out.grown = (await heap()) - early;
  out.read = await page.evaluate(() =>
    Number(/[\d,]+/.exec(document.querySelector(".tabs > [role=status]")?.textContent ?? "0")[0].replaceAll(",", "")),
  );
}
await browser.close();
console.log(JSON.stringify(out));
