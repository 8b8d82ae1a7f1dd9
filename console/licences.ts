/** Writes `licences.txt` beside what is built: the licence of every package that it contains. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

const PACKAGE = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//;
/** Fonts are no modules, and those of the worker are not seen here: every dependency is listed. */
const DIRECT = Object.keys(about(import.meta.dirname).dependencies ?? {}).filter(
  (name) => !name.startsWith("@tracklog/"),
);

export function licences(): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle() {
      const folders = new Map(DIRECT.map((name) => [name, join(import.meta.dirname, "node_modules", name)]));
      for (const id of this.getModuleIds()) {
        const found = PACKAGE.exec(id.replace(/^\0/, "").replaceAll("\\", "/"));
        if (found?.[1] && found[2]) folders.set(found[2], found[1]);
      }
      const source = [...folders]
        .sort(([a], [b]) => a.localeCompare(b))
        .map(([name, folder]) => written(name, folder))
        .join(`\n\n${"=".repeat(80)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licences.txt", source: `${source}\n` });
    },
  };
}

interface About {
  readonly version: string;
  readonly license?: string;
  readonly dependencies?: Record<string, string>;
}

function about(folder: string): About {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as About;
}

function written(name: string, folder: string): string {
  const { version, license = "no licence named" } = about(folder);
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : "The package has no licence text of its own.";
  return `${name} ${version} (${license})\n\n${text}`;
}
