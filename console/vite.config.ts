import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The collector serves what is built here, and the wheel carries it.
export default defineConfig({
  plugins: [react()],
  build: { outDir: "../src/tracklog/console", emptyOutDir: true, sourcemap: false },
  worker: { format: "es" },
  server: { proxy: { "/api": "http://127.0.0.1:4318" } },
  test: { include: ["test/**/*.test.{ts,tsx}"] },
});
