import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "@playwright/test";

const BUILT = resolve(import.meta.dirname, "../../src/tracklog/console");
const size = (name: string) => gzipSync(readFileSync(join(BUILT, "assets", name))).length / 1000;

test("the start is at most 120 kB of script, gzipped, and each part that is loaded later at most 90 kB", () => {
  const page = readFileSync(join(BUILT, "index.html"), "utf8");
  const scripts = readdirSync(join(BUILT, "assets")).filter((name) => name.endsWith(".js"));
  const start = scripts.filter((name) => page.includes(name));
  expect(start.length).toBeGreaterThan(0);
  expect(start.map(size).reduce((a, b) => a + b)).toBeLessThanOrEqual(120);
  for (const name of scripts) if (!start.includes(name)) expect(size(name), name).toBeLessThanOrEqual(90);
});

test("fonts are not in the way of the start, and what is shipped has its licence", () => {
  const page = readFileSync(join(BUILT, "index.html"), "utf8");
  expect(page).not.toContain("font");
  const names = readdirSync(join(BUILT, "assets"));
  expect(names.filter((name) => name.endsWith(".woff2"))).toHaveLength(2);
  const licences = readFileSync(join(BUILT, "licences.txt"), "utf8");
  for (const part of ["@fontsource-variable/inter", "@fontsource-variable/jetbrains-mono", "react-dom", "zod"])
    expect(licences).toContain(`\n${part} `.trimStart());
  expect(licences).toContain("SIL OPEN FONT LICENSE");
});
