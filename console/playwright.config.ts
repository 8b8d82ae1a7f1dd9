import { defineConfig } from "@playwright/test";

/** The browser that `make chromium` prints; without it, the one that Playwright downloaded. */
const CHROMIUM = process.env.CHROMIUM;

export default defineConfig({
  testDir: "browser",
  testMatch: process.env.SCREENSHOTS ? "*.shots.ts" : "*.test.ts",
  outputDir: process.env.PLAYWRIGHT_OUTPUT ?? "node_modules/.browser",
  fullyParallel: true, // each test has a collector of its own
  workers: 4, // half their time the tests wait
  timeout: 120_000, // a machine may be busy; nothing waits so long that goes well
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 900 },
    launchOptions: {
      ...(CHROMIUM && { executablePath: CHROMIUM }),
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--font-render-hinting=none",
      ],
    },
  },
});
