import "./lib/locale";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { live } from "./lib/live";
import "./styles.css";

// One line for all tabs: a browser opens six connections to a collector, and each line holds one of them.
live.start((failed) => {
  const shared = typeof SharedWorker === "function";
  const line = shared
    ? new SharedWorker(new URL("./lib/line.ts", import.meta.url), { type: "module" })
    : new Worker(new URL("./lib/line.ts", import.meta.url), { type: "module" });
  line.onerror = failed;
  return "port" in line ? line.port : line;
});
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
