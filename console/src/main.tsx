import { createRoot } from "react-dom/client";
import { App } from "./app";
import { live } from "./lib/live";
import "./styles.css";

live.start();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
