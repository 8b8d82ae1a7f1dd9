// Sends the events of OpenCode to a tracklog collector. It never fails, and nobody waits for it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

const HERE = "@HERE@".startsWith("@")
  ? join(process.env.XDG_CONFIG_HOME || join(homedir(), ".config"), "tracklog", "hooks")
  : "@HERE@";
const SENT = /^(session\.(created|updated|idle|error|deleted)|message\.(updated|part\.updated)|permission\.)/;

function read(name) {
  const path = join(HERE, name);
  return existsSync(path) ? readFileSync(path, "utf8").trim() : "";
}

function note(name, text) {
  try {
    writeFileSync(join(HERE, name), text);
  } catch {
    // The folder is gone: `tracklog connect opencode` makes it again.
  }
}

async function send(event) {
  const headers = { "Content-Type": "application/json" };
  const [name, value] = read("authorization").split(": ");
  if (value) headers[name] = value;
  let answer = "";
  try {
    const url = `${read("url") || "http://127.0.0.1:4318"}/api/hooks/opencode`;
    const body = JSON.stringify(event);
    const response = await fetch(url, { method: "POST", headers, body, signal: AbortSignal.timeout(2000) });
    if (response.ok) return note("opencode.sent", "");
    answer = `${await response.text()}\n${response.status}`;
  } catch {
    answer = "\n000";
  }
  note("opencode.refused", `${new Date().toISOString()} ${event.type}\n${answer}\n`);
}

export const Tracklog = async () => {
  let last = Promise.resolve(); // one after another, in their order
  return {
    event: async ({ event }) => {
      const part = event.properties?.part;
      const growing = part && (part.state?.status === "pending" || (part.type === "text" && part.time && !part.time.end));
      if (!SENT.test(event.type) || growing) return;
      last = last.then(() => send(event)).catch(() => undefined);
      if (event.type === "session.idle") await last;
    },
  };
};
