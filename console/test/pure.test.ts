import { describe, expect, test, vi } from "vitest";
import type { StoryAnswer, StoryRecord } from "../src/lib/answers";

vi.stubGlobal("location", { hash: "" });
vi.stubGlobal("window", { addEventListener: () => undefined });

const { address, ask, keepingPage } = await import("../src/lib/api");
const { rest } = await import("../src/lib/use");
const { parse, href, runHref } = await import("../src/lib/route");
const { RunRecords, lowerBound } = await import("../src/lib/run-records");
const { RunStructure } = await import("../src/lib/run-structure");
const { inert, start } = await import("../src/lib/text");
const { ago, cost, count, duration, exact, money, percent, short } = await import("../src/lib/time");
const { extent, lanes, nearest, pressable, streaks, zoomed } = await import("../src/parts/timeline");
const { cut } = await import("../src/parts/detail");
const { boardAddress, fleetView } = await import("../src/lib/fleet");
const { itemAt, partOf } = await import("../src/parts/runs");
const { pointOf, rangeText, yesterday } = await import("../src/lib/range");
const { terms } = await import("../src/pages/search");
const { parseFrame } = await import("../src/lib/frames");
const { parseKahnEvent } = await import("@tracklog/contracts/ralph");

let seq = 0;
const record = (at: number, ...facts: object[]): StoryRecord =>
  ({
    seq: ++seq,
    received: new Date(at).toISOString(),
    dialect: "d",
    kind: "k",
    bytes: 1,
    words: "",
    facts,
  }) as unknown as StoryRecord;

function shaped(records: readonly StoryRecord[]) {
  const structure = new RunStructure();
  const beside = records.map((each) => structure.add(each));
  return { structure, beside };
}

describe("the shape of a run", () => {
  test("a call is joined with its result, also when an id is used again", () => {
    const records = [
      record(0, { fact: "Called", tool: "A", call_id: "1" }),
      record(1000, { fact: "Returned", call_id: "1", ok: false }),
      record(2000, { fact: "Called", tool: "B", call_id: "1" }),
    ];
    const { structure, beside } = shaped(records);
    const [first, , third] = records.map((each) => each.seq);
    expect(records.map((each) => each.facts[0] && structure.call(each.facts[0], each.seq)?.tool)).toEqual([
      "A",
      undefined,
      "B",
    ]);
    expect(structure.call(records[0]!.facts[0]!, first!)).toMatchObject({ ok: false, returned: first! + 1 });
    expect(structure.call(records[2]!.facts[0]!, third!)?.returned).toBeUndefined();
    expect(beside).toEqual([null, first, null]);
  });

  test("a made-up id means something within its record only", () => {
    const both = (ok: boolean) => [
      { fact: "Called", tool: "A", call_id: "s", synthetic_id: true },
      { fact: "Returned", call_id: "s", synthetic_id: true, ok },
    ];
    const records = [record(0, ...both(true)), record(1, ...both(false))];
    const { structure, beside } = shaped(records);
    expect(records.map((each) => structure.call(each.facts[0]!, each.seq)?.ok)).toEqual([true, false]);
    expect(beside).toEqual([null, null]);
  });

  test("a second report of a call is no second call, and a second result no second result", () => {
    const records = [
      record(0, { fact: "Called", tool: "A", call_id: "1" }),
      record(1, { fact: "Called", tool: "A", call_id: "1" }),
      record(2, { fact: "Returned", call_id: "1", ok: true }),
      record(3, { fact: "Returned", call_id: "1", ok: false }),
    ];
    const { structure, beside } = shaped(records);
    expect(structure.call(records[0]!.facts[0]!, records[0]!.seq)?.ok).toBe(true);
    expect(structure.call(records[1]!.facts[0]!, records[1]!.seq)).toBeUndefined();
    expect(structure.failures).toEqual([records[3]?.seq]);
    expect(beside).toEqual([null, null, records[0]?.seq, null]);
  });

  test("moves are counted, and the illegal ones among them", () => {
    const move = { fact: "Moved", from: "a", to: "b", phase: "working" };
    const records = [record(0, move), record(1, move)];
    const { structure } = shaped(records);
    expect(structure.moves(new Set([records[1]?.seq ?? 0]))).toMatchObject([
      { from: "a", to: "b", count: 2, illegal: 1 },
    ]);
    expect(structure.moves(new Set(), records[0]?.seq)).toMatchObject([{ from: "a", to: "b", count: 1, illegal: 0 }]);
    expect(structure.moves(new Set(), 0)).toEqual([]);
  });
});

describe("a long run", () => {
  const records = (count: number, from = 1): StoryRecord[] =>
    Array.from({ length: count }, (_, n) => ({ ...record(n, { fact: "Said", role: "world" }), seq: (from + n) * 3 }));
  const page = (records: StoryRecord[]): StoryAnswer => ({ family: "f", run: "r", last: 0, next: null, records });

  test("the words of a few pages are held, the others are asked for when they are looked at", async () => {
    const all = records(20_000);
    const asked: number[] = [];
    let changed = 0;
    const runRecords = new RunRecords(
      (after, limit) => {
        asked.push(after);
        return Promise.resolve(page(all.filter((each) => each.seq > after).slice(0, limit)));
      },
      () => changed++,
    );
    for (let n = 0; n < all.length; n += 2000) runRecords.add(all.slice(n, n + 2000));
    expect(runRecords.seqs).toHaveLength(20_000);
    const held = () => all.filter((each) => runRecords.held(each.seq)).length;
    expect(held()).toBe(6_000);
    expect(runRecords.record(19_999)?.seq).toBe(60_000);
    expect(runRecords.record(10)).toBeUndefined();
    expect(runRecords.record(11)).toBeUndefined();
    await Promise.resolve();
    await Promise.resolve();
    expect(asked).toEqual([2]);
    expect(changed).toBe(1);
    expect(runRecords.record(10)?.seq).toBe(33);
    expect(held()).toBe(6_000);
  });

  test("a page that could not be had is asked for again", async () => {
    const all = records(7_000);
    let tries = 0;
    const runRecords = new RunRecords(() =>
      ++tries === 1 ? Promise.reject(new Error("away")) : Promise.resolve(page(all.slice(0, 250))),
    );
    runRecords.add(all);
    expect(runRecords.record(0)).toBeUndefined();
    await vi.waitFor(() => expect(runRecords.record(0)?.seq).toBe(3));
    expect(tries).toBe(2);
  });

  test("a result is shown with its call, and its number leads there", () => {
    const runRecords = new RunRecords(() => Promise.reject(new Error("nothing is missing")));
    const run = [
      record(0, { fact: "Said", role: "user" }),
      record(1, { fact: "Called", tool: "A", call_id: "1" }),
      record(2, { fact: "Said", role: "assistant" }),
      record(3, { fact: "Returned", call_id: "1", ok: true }),
      record(4, { fact: "Said", role: "assistant" }),
    ];
    runRecords.add(run);
    expect(runRecords.rows).toEqual([0, 1, 2, 4]);
    expect(run.map((each) => runRecords.row(each.seq))).toEqual([0, 1, 2, 1, 3]);
  });

  test("the place of a number among rising ones", () => {
    expect([0, 2, 3, 4, 9].map((value) => lowerBound([2, 4, 6], value))).toEqual([0, 0, 1, 1, 3]);
    expect(lowerBound([], 1)).toBe(0);
  });
});

describe("the timeline", () => {
  const span = (agent: string, begin: number, end: number, seq = 1) => ({
    kind: "tool" as const,
    name: "x",
    agent,
    seq,
    begin,
    end,
    open: false,
    failed: false,
  });

  test("one lane per agent, and nothing covers anything", () => {
    const found = lanes([span("a", 0, 5), span("b", 1, 2), span("a", 3, 8), span("a", 5, 6)]);
    expect(found.map((lane) => [lane.name, lane.rows.map((row) => row.length)])).toEqual([
      ["a", [2, 1]],
      ["b", [1]],
    ]);
  });

  test("what falls on the same point is drawn once, and what is outside is not", () => {
    const many = Array.from({ length: 50_000 }, (_, n) => span("a", n % 100, (n % 100) + 0.5, n));
    const [lane] = streaks(many, { begin: 0, end: 100 });
    expect(lane?.paths.tool?.match(/M/g)).toHaveLength(100);
    expect(streaks([span("a", 0, 1)], { begin: 5, end: 9 })).toEqual([]);
  });

  test("a strip shows as much red as there are failures", () => {
    const many = Array.from({ length: 10_000 }, (_, n) => ({ ...span("a", n, n + 1, n), failed: n % 15 === 0 }));
    const [lane] = streaks(many, { begin: 0, end: 10_000 });
    const area = (path = "") =>
      [...path.matchAll(/h([\d.]+)v([\d.]+)/g)].reduce((sum, [, wide, high]) => sum + Number(wide) * Number(high), 0);
    const share = area(lane?.paths.bad) / area(lane?.paths.tool);
    expect(share).toBeGreaterThan(0.05);
    expect(share).toBeLessThan(0.12); // 6.7 % failed, drawn in tenths of the height
  });

  test("of too many the widest can be pressed, and those that failed or wait before all others", () => {
    const many = [
      ...Array.from({ length: 1000 }, (_, n) => span("a", n, n + 0.1, n)),
      { ...span("a", 5, 5, 5000), failed: true },
    ];
    const found = pressable(many, { begin: 0, end: 1000 });
    expect(found).toHaveLength(400);
    expect(found.some((each) => each.seq === 5000)).toBe(true);
    expect(pressable(many, { begin: 10, end: 19.5 })).toHaveLength(10);
  });

  test("a zoomed range stays within the full range and contains its centre", () => {
    const whole = extent([span("a", 0, 60), span("a", 50, 100)]);
    expect(whole).toEqual({ begin: 0, end: 100 });
    expect(zoomed(whole, 4, 50)).toEqual({ begin: 37.5, end: 62.5 });
    expect(zoomed(whole, 4, 0)).toEqual({ begin: 0, end: 25 });
    expect(zoomed(whole, 4, 99)).toEqual({ begin: 75, end: 100 });
  });

  test("a click leads to what is nearest", () => {
    expect(nearest([span("a", 0, 1, 1), span("a", 10, 20, 2), span("a", 30, 31, 3)], 22)?.seq).toBe(2);
    expect(nearest([], 22)).toBeUndefined();
  });
});

test("the list of runs is asked for by the filters of the address, a part at a time", () => {
  const asked = (hash: string, after = 0) => boardAddress(fleetView(parse(hash).query), after);
  const bare = "/api/board?limit=100&group=attention&sort=activity";
  expect(asked("#/?status=waiting&agent=a%26b&seq=7")).toBe(`${bare}&status=waiting&agent=a%26b&closed=seen`);
  expect(asked("#/?seen=yes&tag=flaky&score=0.5..")).toBe(`${bare}&tag=flaky&seen=yes&score=0.5..`); // they are shown
  const early = Object.values(
    import.meta.glob<string>("../public/early.js", { query: "?raw", import: "default", eager: true }),
  )[0];
  expect(early).toContain(`"${asked("#/")}"`); // it is on its way before it is asked for
  expect(asked("#/", 300)).toBe(`${bare}&after=300&closed=seen`);
  expect([0, 49, 70, 90, 4_999].map(partOf)).toEqual([0, 0, 0, 50, 4950]);
});

test("an address of the fleet holds ranges, several values, order and groups; older ones go on working", () => {
  const asked = (hash: string) => new URLSearchParams(boardAddress(fleetView(parse(hash).query), 0).split("?")[1]);
  const now = asked(
    "#/?since=-24h&project=%2Fw%2Fa%2Cb&project=!%2Fw%2Fc&source=ralph&sort=cost&dir=asc&group=project",
  );
  expect(now.getAll("project")).toEqual(["/w/a,b", "!/w/c"]);
  expect(Object.fromEntries(now)).toMatchObject({ since: "-24h", dialect: "ralph", sort: "cost", dir: "asc" });
  expect(now.get("group")).toBe("project");
  const old = asked("#/?text=x&status=failed&dialect=ralph&within=7d&outcome=stuck&agent=a");
  expect(Object.fromEntries(old)).toMatchObject({
    text: "x",
    status: "failed",
    dialect: "ralph",
    since: "-7d",
    outcome: "stuck",
    agent: "a",
  });
  expect(asked("#/?within=all").has("since")).toBe(false);
  expect(asked("#/?sort=nonsense&dir=up&group=moon").toString()).toBe(
    "limit=100&group=attention&sort=activity&closed=seen",
  );
});

test("a line of the table is the head of a group or a run of the list", () => {
  const groups = [
    { key: "working", count: 2, closed: false },
    { key: "broken", count: 5, closed: true },
    { key: "done", count: 1, closed: false },
  ];
  const lines = [0, 1, 2, 3, 4, 5].map((line) => itemAt(groups, line));
  expect(lines).toEqual([
    { group: groups[0] },
    { place: 0 },
    { place: 1 },
    { group: groups[1] },
    { group: groups[2] },
    { place: 2 },
  ]);
  expect(itemAt([], 7)).toEqual({ place: 7 });
});

test("ranges of time are read in the address and spelled for a person", () => {
  const now = Date.parse("2026-11-16T16:30:00Z");
  expect(pointOf("-24h", now)).toBe(now - 86_400_000);
  expect(pointOf("now", now)).toBe(now);
  expect(pointOf("yesterday", now)).toBeNaN();
  expect(rangeText({ since: "", until: "" }, now)).toBe("All time");
  expect(rangeText({ since: "-24h", until: "" }, now)).toMatch(/^15 Nov \d\d:30 – now$/);
  expect(rangeText({ since: "", until: "2026-11-16T16:30:00Z" }, now)).toMatch(/^the beginning – 16 Nov/);
});

test("yesterday begins and ends at midnight of the viewer, also where a clock was changed", () => {
  for (const day of ["2026-11-16T12:30:00Z", "2026-03-29T23:30:00Z", "2026-03-30T00:30:00Z", "2026-01-01T09:00:00Z"]) {
    const now = Date.parse(day);
    const { since, until } = yesterday(now);
    for (const point of [since, until]) expect(new Date(point).toTimeString()).toMatch(/^00:00:00/);
    expect(Date.parse(until)).toBeLessThanOrEqual(now);
    expect(now - Date.parse(until)).toBeLessThan(25.5 * 3_600_000);
    expect(Math.round((Date.parse(until) - Date.parse(since)) / 86_400_000)).toBe(1);
  }
});

describe("foreign text", () => {
  test("colour codes go, what is hidden or turns the line is spelled out", () => {
    expect(inert("\u001b[31mred\u001b[0m")).toBe("red");
    expect(inert("\u001b]0;title\u0007x")).toBe("x");
    expect(inert("a\u202eb")).toBe("a⟨U+202E⟩b");
    expect(inert("a\u0000b")).toBe("a␀b");
    expect(inert("pay\u200bpal \u{e0049}\u{e0067}\ufeff")).toBe("pay⟨U+200B⟩pal ⟨U+E0049⟩⟨U+E0067⟩⟨U+FEFF⟩");
    expect(inert("🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} می‌خواهم 👩‍🚀")).toBe(
      "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} می‌خواهم 👩‍🚀",
    );
    expect(inert("line\n\ttab ünïcödé 👩‍🚀")).toBe("line\n\ttab ünïcödé 👩‍🚀");
  });

  test("no control character and no mark that turns text survives, whatever is thrown at it", () => {
    let state = 7;
    for (let round = 0; round < 500; round++) {
      const text = Array.from({ length: 40 }, () => {
        state = (state * 48271) % 2147483647;
        return String.fromCharCode(state % 0x2100);
      }).join("");
      expect(inert(text)).not.toMatch(
        /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/,
      );
    }
  });

  test("a beginning has whole characters only", () => {
    expect(start("abc", 3)).toBe("abc");
    expect(start("a👩b👩c", 4)).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
  });
});

describe("addresses", () => {
  test("what is in an address comes back, whatever the names hold", () => {
    for (const name of ["a", "a/b", "a?b#c", "ü %", "<script>", "..", "a:b"]) {
      const { parts, query } = parse(runHref("fam", name, { seq: 7, text: "x&y=z" }));
      expect(parts).toEqual(["run", "fam", name]);
      expect([query.get("seq"), query.get("text")]).toEqual(["7", "x&y=z"]);
    }
  });

  test("what is empty is left out, and nonsense is read as it stands", () => {
    expect(href(["inbox"], { a: "" })).toBe("#/inbox");
    expect(parse("#/run/%E0%A4%A").parts).toEqual(["run", "%E0%A4%A"]);
    expect(parse("").parts).toEqual([]);
  });

  test("of ralph stays: its panel, and each of its runs", () => {
    expect(parse("#/ralph").parts).toEqual(["dash", "ralph-runs"]);
    expect(parse("#/dash/ralph-runs").parts).toEqual(["dash", "ralph-runs"]);
    expect(parse("#/ralph/rocky-7?seq=3").parts).toEqual(["run", "kahn", "rocky-7"]);
    expect(parse("#/run/ralph/x").parts).toEqual(["run", "ralph", "x"]);
  });
});

test("times and sizes as a person reads them", () => {
  expect(duration(0.25)).toBe("250 ms");
  expect(duration(59.4)).toBe("59 s");
  expect(duration(119.7)).toBe("2 min 0 s");
  expect(duration(3_700)).toBe("1 h 1 min");
  expect(duration(null)).toBe("–");
  expect(ago("2026-05-05T09:00:00.000Z", Date.parse("2026-05-05T09:01:30.000Z"))).toBe("1 min ago");
  expect(ago("2026-05-05T09:00:00.000Z", Date.parse("2026-05-05T08:00:00.000Z"))).toBe("just now");
  expect(ago("nonsense", 0)).toBe("–");
  expect(exact("nonsense")).toBe("no time recorded");
  expect(exact("2026-05-05T09:00:00.123Z")).toMatch(/^2026-05-0[456] \d\d:\d\d:\d\d\.123 [+-]\d\d:\d\d$/);
  expect([0, 999, 1000, 12_345, 1_234_567].map((n) => count(n))).toEqual(["0", "999", "1,000", "12,345", "1,234,567"]);
  expect([0, 999, 1000, 12_345, 100_000, 999_600, 2.5e9].map((n) => short(n))).toEqual([
    "0",
    "999",
    "1K",
    "12.3K",
    "100K",
    "1M",
    "2.5B",
  ]);
  const paid = { cost_usd: null, computed_usd: 9.81, lower_bound: true };
  expect([paid, { ...paid, lower_bound: false, cost_usd: 1 }, { cost_usd: 1 }, { cost_usd: null }].map(cost)).toEqual([
    "≥ ~$9.81",
    "~$10.81",
    "$1.00",
    "–",
  ]);
  expect([0.004, 0, 12_345.678, 9_007_199].map((n) => money(n))).toEqual(["$0.0040", "$0.00", "$12,345.68", "$9.01M"]);
  expect(duration(-3_700)).toBe("-1 h 1 min"); // told by a clock that was put back
  expect(percent(0.4)).toBe("40 %");
});

test("an answer that was held up once, by sleep or by a server that stood still, holds up no other", () => {
  expect([rest(20, 0), rest(3_600_000, 20), rest(20, 3_600_000)]).toEqual([1_000, 1_000, 1_000]);
  expect(rest(2_000, 3_000)).toBe(8_000); // who is always slow is asked seldom
});

test("where the token is asked for, in place of what is shown, the page is loaded again", async () => {
  const reload = vi.fn();
  vi.stubGlobal("location", { hash: "", reload });
  vi.stubGlobal("fetch", () =>
    Promise.resolve(Response.json({ error: "this server asks for its token" }, { status: 401 })),
  );
  await expect(ask(address("/api/runs"))).rejects.toThrow("asks for its token");
  expect(reload).toHaveBeenCalledOnce();
});

test("the words of a question are found as the index finds them", () => {
  expect(terms('"Connection refused" ti* x')).toEqual(["connection refused", "ti", "x"]);
});

test("the event's bytes are cut out of the page and not serialised again", () => {
  const event = '{"n":1.0, "run_id":"r","deep":{"event":[1]}}';
  const page = `{"first":1,"last":2,"next":1,"events":[{"seq":1,"received":"t","dialect":"d","run":"r","event":${event}}]}`;
  expect(cut(page)?.event).toBe(event);
  expect(cut('{"first":1,"last":0,"next":0,"events":[]}')).toBe(null);
});

describe("the stream's boundary", () => {
  const frame = (event: unknown, dialect = "ralph") =>
    JSON.stringify({ seq: 1, received: "2026-05-05T09:00:00.000Z", dialect, family: "kahn", run: "r", event });

  test("[RALPH-16, RALPH-33, RALPH-45] frames are judged by the schemas of the contracts package, and by no other", () => {
    const good = { ts: "2026-05-05T09:00:00.000Z", run_id: "r", event: "run_start", total_nodes: 1, actor: "rocky" };
    const bad = [
      { ...good, actor: 7 },
      { ...good, total_nodes: -1 },
      { ...good, event: "run_began" },
      { ...good, ts: "yesterday" },
      {},
    ];
    for (const event of [good, ...bad]) {
      const theirs = parseKahnEvent(event);
      const ours = parseFrame(frame(event));
      expect(ours.ok).toBe(theirs.ok);
      expect(ours.seq).toBe(1);
      if (!ours.ok && !theirs.ok) for (const problem of theirs.problems) expect(ours.why).toContain(problem.message);
    }
    const models = import.meta.glob<string>("../src/**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });
    const owners = Object.keys(models).filter((path) => models[path]?.includes('from "zod"'));
    expect(owners).toEqual(["../src/lib/frames.ts"]);
    expect(models["../src/lib/frames.ts"]).not.toMatch(/node_id|run_start|outcome/);
  });

  test("what is no frame is rejected, an event of an unknown dialect is not", () => {
    expect(parseFrame("no json")).toMatchObject({ ok: false, seq: null });
    expect(parseFrame('{"seq":0}')).toMatchObject({ ok: false, seq: null });
    expect(parseFrame(frame({ what: "ever" }, "dialect-of-tomorrow")).ok).toBe(true);
    expect(parseFrame(frame(null)).ok).toBe(true);
  });
});

describe("who must give a token", () => {
  const reload = vi.fn();
  const refused = () => new Response("{}", { status: 401 });

  test("is not taken from a page that is getting it, also where an answer comes late", async () => {
    vi.stubGlobal("location", { hash: "", reload });
    const answers: ((response: Response) => void)[] = [];
    vi.stubGlobal("fetch", () => new Promise<Response>((answer) => answers.push(answer)));
    const asked = ask(address("/healthz"));
    await keepingPage(async () => undefined);
    answers[0]?.(refused());
    await expect(asked).rejects.toThrow();
    expect(reload).not.toHaveBeenCalled();
    const later = ask(address("/healthz"));
    answers[1]?.(refused());
    await expect(later).rejects.toThrow();
    expect(reload).toHaveBeenCalledOnce();
  });
});
