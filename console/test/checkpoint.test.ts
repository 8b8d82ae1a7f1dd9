import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { RunCheckpoint } from "../src/lib/answers";
import { conflictOf, isSeen, lastSeen, remember, verifiedBy } from "../src/lib/checkpoint";
import { sha256 } from "../src/lib/sha256";

const path = new URL("../../contracts/vectors/acknowledgements.json", import.meta.url);
const { checkpoints: journals } = JSON.parse(readFileSync(path, "utf8")) as {
  checkpoints: { name: string; seen: unknown[]; warns: boolean }[];
};

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
    expect([one.badge, one.by]).toEqual(["Proven to #9", "against w1"]);
    expect(one.title).toContain(`up to record 9`);
    expect(one.title).toContain(`w1 at ${at}`);
    const two = checkpoint(9, "a", [
      { name: "w1", at },
      { name: "w2", at },
    ]);
    expect(verifiedBy(3, two).by).toBe("against w1 and 1 more");
  });

  it.each(journals)("complains about a journal that was cut or rewritten: $name", ({ seen, warns }) => {
    const store = memory();
    const conflicts = seen.filter(isSeen).map((each) => {
      const known = lastSeen(each.origin, store);
      const conflict = known && conflictOf({ ...each, witnesses: [] }, known);
      if (!conflict) remember(each, store);
      return conflict;
    });
    expect(conflicts.some(Boolean)).toBe(warns);
  });

  it("says what is wrong in words", () => {
    const seen = { origin: "example.com/j", records: 5, root: "a" };
    expect(conflictOf(checkpoint(5, "b"), seen)).toContain("rewritten: this browser saw another checkpoint");
    expect(conflictOf(checkpoint(4, "c"), seen)).toContain("rolled back");
    expect(conflictOf(checkpoint(7, "d"), seen)).toMatch(/rewritten: .* of 5 records, .* of 7, does not begin/);
  });

  it("remembers the last checkpoint of each journal, and whose was the last", () => {
    const store = memory();
    for (const [origin, records] of [["j", 3] as const, ["k", 9] as const, ["j", 4] as const])
      remember({ origin, records, root: "a" }, store);
    expect(lastSeen("j", store)?.records).toBe(4);
    expect(lastSeen("k", store)?.records).toBe(9);
    expect(lastSeen(undefined, store)?.origin).toBe("j");
    expect(lastSeen("other", store)).toBeNull();
  });

  it.each(["{}", "[0, null]", '[{"origin":"j","records":0,"root":"a"}]', "x"])(
    "ignores what it did not store: %s",
    (text) => {
      expect(lastSeen(undefined, { getItem: () => text, setItem: () => undefined })).toBeNull();
    },
  );

  it("needs no storage", () => {
    const denied = (): never => {
      throw new Error("denied");
    };
    const broken = { getItem: denied, setItem: denied };
    remember(checkpoint(5, "a"), broken);
    expect(lastSeen("example.com/j", broken)).toBeNull();
  });

  it("hashes as everybody does", () => {
    for (const length of [...Array(200).keys(), 1000]) {
      const bytes = Uint8Array.from({ length }, (_, place) => (place * 7 + length) % 256);
      expect(sha256(bytes)).toBe(createHash("sha256").update(bytes).digest("hex"));
    }
  });
});
