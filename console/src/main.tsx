import "./lib/locale";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { live } from "./lib/live";
import "./styles.css";

// One stream for all tabs: a browser opens six connections to a collector, and each stream holds one of them.
live.start((failed) => {
  const shared = typeof SharedWorker === "function";
  const worker = shared
    ? new SharedWorker(new URL("./lib/stream-worker.ts", import.meta.url), { type: "module" })
    : new Worker(new URL("./lib/stream-worker.ts", import.meta.url), { type: "module" });
  worker.onerror = failed;
  return "port" in worker ? worker.port : worker;
});
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
