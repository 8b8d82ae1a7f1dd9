/** A run in lines of the native dialect. */

export const line = (run: string, n: number, seconds: number, fact: string, more: object) => ({
  id: `${run}-${n}`,
  run,
  at: new Date(Date.now() - 3_600_000 + seconds * 1000).toISOString(),
  fact,
  agent: "coder",
  origin: { writer: "t", fidelity: "observed" },
  ...more,
});

/** A run of two turns: one call passes, one fails, a person is asked in between. */
export const story = (run: string) => [
  line(run, 1, 0, "Began", { what: "run", task: `Repair ${run}` }),
  line(run, 2, 1, "Said", { role: "user", blocks: [{ type: "text", text: "please repair the basket" }] }),
  line(run, 3, 5, "Said", { role: "assistant", blocks: [{ type: "text", text: "I look at the basket" }] }),
  line(run, 4, 5, "Spent", {
    key: `${run}-s1`,
    model: "claude-sonnet-4-5",
    usage: { input_tokens: 10_000, cached_tokens: 5_000, output_tokens: 500 },
  }),
  line(run, 5, 6, "Called", { tool: "Read", call_id: `${run}-c1`, input: { path: "basket.py" } }),
  line(run, 6, 8, "Returned", { call_id: `${run}-c1`, ok: true, output: "one\ntwo\nthree\nfour\nfive\nsix" }),
  line(run, 7, 12, "Said", { role: "assistant", blocks: [{ type: "text", text: "Now the tests" }] }),
  line(run, 8, 12, "Spent", {
    key: `${run}-s2`,
    model: "claude-opus-4-1",
    usage: { input_tokens: 12_000, cached_tokens: 9_000, output_tokens: 700 },
  }),
  line(run, 9, 13, "Called", { tool: "Bash", call_id: `${run}-c2`, input: { command: "pytest" } }),
  line(run, 10, 33, "Returned", { call_id: `${run}-c2`, ok: false, error: "warm up\nFAILED test_basket" }),
  line(run, 11, 40, "Ended", { what: "run", outcome: "failed", passed: false }),
];
