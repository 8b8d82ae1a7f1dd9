import { defineConfig } from "@playwright/test";

/** Debian's Chromium, or another one by its path; nothing is downloaded. */
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

export default defineConfig({
  testDir: "browser",
  testMatch: process.env.SCREENSHOTS ? "*.shots.ts" : "*.test.ts",
  outputDir: process.env.PLAYWRIGHT_OUTPUT ?? "node_modules/.browser",
  fullyParallel: true, // each test has a collector of its own
  workers: 2,
  timeout: 120_000, // a machine may be busy; nothing waits so long that goes well
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 900 },
    launchOptions: {
      executablePath: CHROMIUM,
      args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"],
    },
  },
});
