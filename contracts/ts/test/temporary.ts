/** A temporary folder for all tests of a run, removed when they have ended. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";

export default function setup(): () => void {
  const folder = mkdtempSync(`${tmpdir()}/tracklog-contracts-`);
  Object.assign(process.env, { TMPDIR: folder }); // the processes that run the tests inherit it
  return () => rmSync(folder, { recursive: true, force: true });
}
