import { createRoot } from "react-dom/client";
import { App } from "./app";
import { live } from "./lib/live";
import "./styles.css";

live.start(() => new Worker(new URL("./lib/line.ts", import.meta.url), { type: "module" }));
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
