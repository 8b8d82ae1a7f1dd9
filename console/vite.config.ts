import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { licences } from "./licences.ts";

// The collector serves what is built here, and the wheel carries it.
export default defineConfig({
  plugins: [react(), licences()],
  build: { outDir: "../src/tracklog/console", emptyOutDir: true, sourcemap: false },
  worker: { format: "es" },
  server: { proxy: { "/api": "http://127.0.0.1:4318" } },
  test: { include: ["test/**/*.test.{ts,tsx}"] },
});
