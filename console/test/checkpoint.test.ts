import { describe, expect, it } from "vitest";
import { conflictOf, type RunCheckpoint, verifiedBy } from "../src/lib/checkpoint";

const checkpoint = (records: number, root: string, witnesses: RunCheckpoint["witnesses"] = []): RunCheckpoint => ({
  origin: "example.com/j",
  records,
  root,
  witnesses,
});

function memory() {
  const values = new Map<string, string>();
  return {
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => void values.set(key, value),
  };
}

describe("checkpoints", () => {
  it("says against what a run was verified", () => {
    expect(verifiedBy(3, null).badge).toBe("Chained, no witness");
    expect(verifiedBy(3, checkpoint(9, "a")).badge).toBe("Signed, no witness");
    const at = "2026-05-05T09:00:00.000Z";
    const one = verifiedBy(3, checkpoint(9, "a", [{ name: "w1", at }]));
    expect(one.badge).toBe("Witnessed by w1");
    expect(one.title).toContain(`up to record 9`);
    expect(one.title).toContain(`w1 at ${at}`);
    const two = checkpoint(9, "a", [
      { name: "w1", at },
      { name: "w2", at },
    ]);
    expect(verifiedBy(3, two).badge).toBe("Witnessed by w1 and 1 more");
  });

  it("complains about a journal that was rolled back or rewritten, and remembers what was right", () => {
    const store = memory();
    expect(conflictOf(checkpoint(5, "a"), store)).toBeNull();
    expect(conflictOf(checkpoint(5, "b"), store)).toContain("rewritten");
    expect(conflictOf(checkpoint(4, "c"), store)).toContain("rolled back");
    expect(conflictOf(checkpoint(5, "a"), store)).toBeNull();
    expect(conflictOf(checkpoint(7, "d"), store)).toBeNull();
    expect(conflictOf(checkpoint(5, "a"), store)).toContain("rolled back");
    expect(conflictOf({ ...checkpoint(1, "x"), origin: "other" }, store)).toBeNull();
  });

  it("needs no storage", () => {
    const broken = {
      getItem: () => {
        throw new Error("denied");
      },
      setItem: () => undefined,
    };
    expect(conflictOf(checkpoint(5, "a"), broken)).toBeNull();
  });
});
