import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/temporary.ts",
    sequence: { shuffle: true },
    testTimeout: 120_000,
  },
});
