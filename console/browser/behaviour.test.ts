import {
  asks,
  Collector,
  expect,
  firstArticle,
  move,
  open,
  ownLine,
  press,
  rowsOf,
  said,
  settled,
  start,
  test,
  tooWide,
} from "./collector";

test("a collector that is killed and comes back is noticed both times, and nothing is missed", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("before")]);
  await open(page, collector);
  await expect(page.getByRole("link", { name: /before/ })).toBeVisible();
  await collector.kill();
  await expect(page.getByRole("alert").filter({ hasText: "does not answer" })).toBeVisible();
  await expect(page.getByRole("link", { name: /before/ })).toBeVisible();
  await collector.start();
  await collector.post("kahn-agent", [start("after")]);
  await expect(page.getByRole("link", { name: /after/ })).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("everything is in the keyboard's reach, and what has the focus is pressed by Enter, whatever is marked", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [
    start("one"),
    move("one", "thinking", "tool_call"),
    start("two"),
    move("two", "thinking", "failed"),
  ]);
  await open(page, collector);
  const runs = page.getByRole("region", { name: "Runs", exact: true });
  await expect(runs.getByRole("link")).toHaveCount(2);
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toContainText("down and up");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/#\/run\/kahn\/one/);
  await expect(page.getByRole("feed")).toContainText("tool_call");
  await page.keyboard.press("j");
  await expect(page).toHaveURL(/seq=/);
  await page.keyboard.press("2");
  await expect(page).toHaveURL(/\/run\/kahn\/one\/waterfall/);
  await page.keyboard.press("Escape");
  await press(page, "g", "f");
  await expect(page).toHaveURL(/#\/$/);
  await expect(runs.getByRole("link")).toHaveCount(2);
  await page.keyboard.press("j");
  await page.getByRole("button", { name: /^Failed or lost/ }).focus();
  await page.keyboard.press("Enter"); // it closes the group, and opens no run
  await expect(runs.getByRole("link")).toHaveCount(1);
  await page.keyboard.press("Enter");
  await expect(runs.getByRole("link")).toHaveCount(2);
  await page.getByRole("checkbox", { name: /^failed/ }).focus();
  await page.keyboard.press("Space");
  await expect(page).toHaveURL(/status=failed/);
  await expect(runs).toContainText("1 of 2 runs");
  await page.keyboard.press("Escape");
  await press(page, "g", "i");
  await expect(page).toHaveURL(/#\/insights$/);
  await press(page, "g", "n");
  await expect(page.getByRole("heading", { name: "Inbox" })).toBeVisible();
  await page.keyboard.press("t");
  const theme = await page.evaluate(() => document.documentElement.dataset.theme);
  expect(["dark", "light"]).toContain(theme);
  for (let n = 0; n < 12; n++) await page.keyboard.press("Tab");
  expect(await page.evaluate(() => document.activeElement?.tagName)).not.toBe("BODY");
});

test("Enter opens the marked run also while a dialog that was just closed still has the focus", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("one")]);
  await open(page, collector);
  await expect(page.getByRole("link", { name: /one/ })).toBeVisible();
  await page.keyboard.press("j");
  // A busy browser moves the focus out of a closed dialog late; the event is sent as it comes then.
  await page.locator("dialog button.first").dispatchEvent("keydown", { key: "Enter", bubbles: true });
  await expect(page).toHaveURL(/#\/run\/kahn\/one/);
});

test("a question is answered by keyboard alone; what was typed is lost neither by Escape nor by a collector that is gone", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("r"), asks("r", "Which port?")]);
  await open(page, collector);
  await settled(page);
  await press(page, "g", "n");
  const box = page.getByLabel("Your answer");
  await expect(box).toBeFocused();
  await page.keyboard.type("8080");
  await page.keyboard.press("Escape");
  await expect(box).not.toBeFocused();
  await press(page, "g", "n"); // also where the inbox is already open
  await expect(box).toBeFocused();
  await page.keyboard.press("Escape");
  await press(page, "g", "f");
  await expect(page).toHaveURL(/#\/$/);
  await expect(box).toHaveValue("8080");
  await press(page, "g", "n");
  await expect(box).toBeFocused();
  await collector.kill();
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("article")).toContainText("Failed to fetch");
  await expect(box).toHaveValue("8080");
  await collector.start();
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("article")).toContainText("answered; the agent goes on");
});

test("a link asks for the token first, and then opens its page", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r"), move("r", "thinking", "tool_call")]);
  await collector.kill();
  await collector.guard("sesame");
  await open(page, collector, "#/run/kahn/r?seq=2");
  await expect(page.locator("form")).toHaveCSS("border-radius", "8px"); // the page has its style
  for (const [token, then] of [
    ["nope", page.getByText("That is not the token.")],
    ["sesame", page.locator("#e2.chosen")],
  ] as const) {
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await expect(then).toBeVisible();
  }
  await settled(page); // the line, too, has shown it
});

const HOSTILE = [
  "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>",
  "[click](javascript:window.hacked=1) ![p](https://elsewhere.example/p.png)",
  "\u001b[31mred\u001b[0m and \u001b]0;title\u0007 and \u202egnp.exe\u202c and \u0000",
  "<svg onload=window.hacked=1>",
  "x".repeat(400_000),
].join("\n\n");

test("hostile content is inert", async ({ page, collector }) => {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  const name = '<img src=x onerror="window.hacked=1">\u202e';
  await collector.post("fishbowl", [said(name, HOSTILE), said(name, HOSTILE.slice(0, 300))]);
  const native = (n: number, fact: string, more: object) => ({
    id: `h${n}`,
    run: name,
    fact,
    at: new Date().toISOString(),
    origin: { writer: "t", fidelity: "observed" },
    ...more,
  });
  await collector.post("tracklog", [
    native(1, "Began", { what: "run", task: HOSTILE.slice(0, 200), agent: HOSTILE.slice(0, 70) }),
    native(2, "Called", { tool: HOSTILE.slice(0, 70), call_id: "c", input: { a: HOSTILE.slice(0, 300) } }),
    native(3, "Asked", { question_id: HOSTILE.slice(0, 60), text: HOSTILE.slice(0, 300), options: ["<b>yes</b>"] }),
  ]);
  const run = encodeURIComponent(name);
  const places = [
    "#/",
    "#/inbox",
    `#/run/fishbowl/${run}?seq=1`,
    `#/run/fishbowl/${run}?view=stage`,
    `#/run/tracklog/${run}`,
    `#/run/tracklog/${run}?view=timeline`,
    "#/search?q=click",
    `#/diff?a=fishbowl:${run}&b=tracklog:${run}`,
  ];
  for (const place of places) {
    await open(page, collector, place);
    await settled(page);
    expect(await page.evaluate(() => "hacked" in window), place).toBe(false);
    const text = await page.locator("body").innerText();
    expect(text, place).not.toMatch(/[\u001b\u0000\u202e]/);
    const links = await page.locator("a[href^='javascript:']").count();
    expect(links, place).toBe(0);
    expect(await tooWide(page), place).toEqual([]);
  }
  expect(asked.filter((url) => !url.startsWith(collector.url) && !url.startsWith("data:"))).toEqual([]);
});

test("the page says which records were pruned, on the first visit and on the next", async ({
  page,
  collector,
  context,
}) => {
  await collector.post("kahn-agent", [start("old"), start("older")]);
  await open(page, collector);
  await settled(page);
  await expect(page.getByText("were pruned")).toHaveCount(0);
  await collector.kill();
  collector.cli("prune", "--older-than", "0m", "--open-too");
  await collector.start();
  await collector.post("kahn-agent", [start("fresh")]);
  const kept = page.getByText(/^Records 1 to \d+ were pruned\.$/);
  await expect(kept).toBeVisible();
  await expect(page.getByRole("link", { name: /fresh/ })).toBeVisible();
  const other = await context.newPage();
  await open(other, collector, "#/inbox");
  await expect(other.getByText((await kept.textContent()) ?? "")).toBeVisible();
});

test("a frame that fits none of its dialect's shapes is rejected, and the page says so", async ({
  page,
  collector,
}) => {
  await collector.post("kahn-agent", [start("r")]);
  const event = { ts: "2026-05-05T09:00:00.000Z", run_id: "r", event: "run_start", total_nodes: "many" };
  const frame = JSON.stringify({
    seq: 9,
    received: "2026-05-05T09:00:00.000Z",
    dialect: "ralph",
    family: "kahn",
    run: "r",
    event,
  });
  await ownLine(page);
  const body = `event: heartbeat\ndata: {"last":1}\n\nid: 9\ndata: ${frame}\n\n`;
  await page.route("**/api/stream**", (route) => route.fulfill({ contentType: "text/event-stream", body }));
  await open(page, collector);
  await expect(page.getByText("were rejected")).toContainText("/total_nodes");
  await expect(page.getByRole("region", { name: "Runs", exact: true }).getByRole("link")).toHaveCount(1);
});

test("the demo says on every page that it is one, and a person is waited for first; images come from blobs", async ({
  page,
}) => {
  const collector = new Collector();
  await collector.start("demo");
  try {
    for (const place of ["#/", "#/inbox", "#/run/kahn/release-2-4-1", "#/search?q=cat"]) {
      await open(page, collector, place);
      await expect(page.getByText("This is a demo.")).toBeVisible();
    }
    await open(page, collector);
    await expect(page.getByRole("article").first()).toContainText("Roll 2.4.1 out");
    expect(await firstArticle(page)).toContain("Roll 2.4.1 out");
    await open(page, collector, "#/insights");
    const panel = (name: string) => page.getByRole("region", { name, exact: true });
    await expect(panel("Leaderboard")).toContainText("cara");
    await expect(panel("Runs in 24 hours").locator("svg.plot .bar1")).toHaveCount(24);
    expect(await panel("Runs in 24 hours").locator("tbody tr").count()).toBeGreaterThan(0); // for those who cannot see it
    for (const name of ["Cost", "Runs", "Tokens", "Failed calls", "Turn latency"]) {
      await expect(panel(name).getByRole("img")).toBeVisible();
      await panel(name).getByRole("button", { name: "as a table" }).click(); // for those who cannot see it
      expect(await panel(name).locator("tbody tr").count()).toBeGreaterThan(20);
    }
    await expect(panel("Tools")).toContainText(/Bash\d+\d+ %/);
    await expect(panel("Audit flakiness").locator("td.warn").first()).toContainText(/[5-9]\d %|100 %/);
    const calm = panel("Audit flakiness").getByRole("row", { name: /licences/ });
    await expect(calm.locator("td").last()).toHaveText("0 %");
    await expect(panel("Agents over all runs").getByRole("listitem").first()).toContainText("regressed");
    await open(page, collector, "#/?outcome=catastrophic&dialect=ralph&within=24h");
    const runs = page.getByRole("region", { name: "Runs", exact: true });
    await expect(runs).toContainText(/\d of \d+ runs/);
    await page.getByText("Columns", { exact: true }).click();
    await page.getByRole("checkbox", { name: "Outcome" }).check();
    await expect(rowsOf(page).first()).toContainText("catastrophic");
    for (const row of await rowsOf(page).all()) await expect(row).toContainText("catastrophic");
    await open(page, collector, "#/run/kahn/coder-01?view=lifecycle");
    await expect(page.getByRole("region", { name: "Summary" })).toContainText(
      /converged.*score0\.\d+took\d+ s.*tokens.*cost\$/,
    );
    await expect(page.getByRole("row", { name: /^thinking tool_call \d/ })).toBeVisible();
    await expect(page.locator(".lifecycle .state")).toHaveCount(6);
    await open(page, collector, "#/run/openwop/newsletter-45?view=timeline");
    for (const name of ["core.newsroom.supervisor", "the run"])
      await expect(page.getByRole("region", { name: `Lane of ${name}` })).toBeVisible();
    for (const kind of ["step", "wait", "sub-run"]) await expect(page.locator(`.span.${kind}`).first()).toBeVisible();
    await open(page, collector, "#/run/tracklog/conversation-1");
    const picture = page.getByRole("img", { name: /^image\/png, / });
    await expect(picture).toBeVisible();
    await expect.poll(() => picture.evaluate((img: HTMLImageElement) => img.naturalWidth)).toBeGreaterThan(0);
  } finally {
    await collector.close();
  }
});
