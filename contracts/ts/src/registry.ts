/** Finds the dialects: the folder is the registry. */

import { readdirSync } from "node:fs";

import type { Dialect } from "./stream.js";

const FOLDER = new URL("./dialects/", import.meta.url);

/** Every dialect, by name. */
export async function dialects(): Promise<Dialect[]> {
  const files = readdirSync(FOLDER).filter((file) => /^[^.]+\.[jt]s$/.test(file));
  const plugs = files.sort().map((file) => import(new URL(file, FOLDER).href));
  return (await Promise.all(plugs)).map((plug: { dialect: Dialect }) => plug.dialect);
}
