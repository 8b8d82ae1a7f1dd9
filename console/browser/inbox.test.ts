import { once } from "node:events";
import { createInterface } from "node:readline";
import { asks, expect, move, open, ownLine, start, test } from "./collector";
import { line } from "./story";

const AGENT = `
from kahn_agent_emit import AgentEmitter
with AgentEmitter("/dev/null", run_id="asker") as run:
    coder = run.bind(agent_id="coder")
    coder.agent_run_start(task="Choose")
    coder.agent_transition(step=0, from_="thinking", to="tool_call", reason="tool_call:Read")
    coder.tool_invocation(step=0, tool_name="Read", duration_s=0.1, ok=True, input_summary="ports.txt")
    coder.agent_transition(step=0, from_="tool_call", to="tool_result")
    coder.agent_transition(step=0, from_="tool_result", to="response")
    coder.agent_transition(step=0, from_="response", to="reflect")
    coder.agent_transition(step=0, from_="reflect", to="thinking")
    print("answer:", coder.ask("Which port?", timeout=60), flush=True)
`;

test("a person answers an agent that really waits, and it goes on", async ({ page, collector }) => {
  const agent = collector.agent(AGENT);
  const heard = once(createInterface({ input: agent.stdout }), "line");
  await open(page, collector, "#/inbox");
  const card = page.getByRole("article");
  await expect(card).toContainText("Which port?");
  await expect(card).toContainText(/waiting \d+(\.\d)? (ms|s)/);
  await expect(card.getByRole("list", { name: "What led to it" })).toContainText("ports.txt");
  await page.getByLabel("Your answer").fill("8080");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  expect(await heard).toEqual(["answer: 8080"]);
  await expect(card).toContainText("answered");
  await expect(page).toHaveTitle("tracklog");
  await page.getByRole("link", { name: "Choose" }).click();
  await expect(page.getByRole("feed")).toContainText("8080");
});

test("of two operators who answer at once, the second sees who won", async ({ page, collector, context }) => {
  await collector.post("kahn-agent", [start("r"), asks("r", "Which port?")]);
  const other = await context.newPage();
  for (const each of [page, other]) {
    await open(each, collector, "#/inbox");
    await each.getByLabel("Your answer").fill("mine");
  }
  // A browser opens six connections to a collector: if each tab held one, the seventh tab would stay empty.
  expect(await (await fetch(`${collector.url}/metrics`)).text()).toContain("\ntracklog_streams 1\n");
  await page.getByLabel("as", { exact: true }).fill("ada");
  await other.getByLabel("as", { exact: true }).fill("bob");
  // The second page has not heard of the first answer yet when its own is sent.
  await other.evaluate(
    () =>
      (window.fetch = (
        (ask) => (url: RequestInfo | URL, init?: RequestInit) =>
          String(url).includes("/answer") || String(url).includes("/why")
            ? ask(url, init)
            : new Promise<Response>(() => undefined)
      )(window.fetch)),
  );
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await expect(page.getByRole("article")).toContainText("answered");
  await other.getByRole("button", { name: "Answer", exact: true }).click();
  await expect(other.getByRole("article")).toContainText("by ada");
  await expect(other.getByRole("article")).toContainText("first answer counts");
});

test("a run that waits can be answered where it is looked at", async ({ page, collector }) => {
  await collector.post("kahn-agent", [
    start("r"),
    asks("r", "Which port?"),
    start("other"),
    asks("other", "Which host?", "q2"),
  ]);
  await open(page, collector, "#/run/kahn/r");
  await expect(page.getByRole("heading", { name: "Which port?" })).toBeVisible();
  await expect(page.getByRole("heading", { name: "Which host?" })).toHaveCount(0);
  await page.getByLabel("Your answer").fill("8080");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await expect(page.getByText("answered; the agent goes on")).toBeVisible();
  await expect(page.getByRole("feed")).toContainText("8080");
});

test("an open question that another person answers shows who answered, and what", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r"), asks("r", "Which port?")]);
  await open(page, collector, "#/inbox");
  await page.getByLabel("Your answer").fill("my own words");
  await fetch(`${collector.url}/api/inbox/q1/answer`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ answer: "8080", by: "ada" }),
  });
  await expect(page.getByRole("article")).toContainText("answered by ada: 8080");
  await expect(page.getByLabel("Your answer")).toHaveCount(0);
  await expect(page.getByRole("article")).toContainText("not sent: my own words");
});

test("what happens before the live line stands is shown as soon as it does", async ({ page, collector }) => {
  await collector.post("kahn-agent", [start("r"), asks("r", "Which port?")]);
  await ownLine(page);
  let stand: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => {
    stand = resolve;
  });
  await page.context().route("**/api/stream*", async (route) => {
    await answered;
    await route.continue();
  });
  await open(page, collector, "#/inbox");
  await expect(page.getByRole("article")).toContainText("Which port?");
  await collector.post("kahn-agent", [
    move("r", "blocked-on-clarification", "thinking", { reason: "operator_response" }),
  ]);
  stand();
  // Sooner than the page asks by itself.
  await expect(page.getByRole("article")).toContainText("answered", { timeout: 10_000 });
});

test("a question stands with what the agent said last, and the head says how many wait", async ({
  page,
  collector,
}) => {
  await collector.post("tracklog", [
    line("r", 1, 0, "Said", { role: "user", blocks: [{ type: "text", text: "add the key" }] }),
    line("r", 2, 5, "Said", { role: "assistant", blocks: [{ type: "text", text: "All 69 tests pass." }] }),
    line("r", 3, 6, "Asked", { question_id: "q1", what: "permission", text: "May I run the migration?" }),
  ]);
  await open(page, collector, "#/inbox");
  const last = page.getByRole("region", { name: "What the agent said last" });
  await expect(last).toContainText("All 69 tests pass.");
  await expect(page.getByRole("region", { name: "This page" })).toContainText(/1 waits, longest \d+ (min|h)/);
  await last.getByRole("link", { name: "Open at this moment" }).click();
  await expect(page).toHaveURL(/#\/run\/tracklog\/r\?seq=2/);
});
