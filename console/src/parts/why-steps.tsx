/** The steps that led to a record or came of it: when, who did what, and in which words. */

import type { WhyStep } from "../lib/answers";
import { runHref } from "../lib/route";
import { inert, TELLING } from "../lib/text";
import { clock } from "../lib/time";
import { Coded, Text } from "./bits";
import { Icon, StatusGlyph } from "./icons";

type IconName = "person" | "tool" | "reply" | "right" | "robot" | "sub";

const isAnswer = ({ kind }: WhyStep) => /answer/i.test(kind);
const isCall = ({ kind }: WhyStep) => /^called$|tool|call/i.test(kind);
const isReturn = ({ kind, words }: WhyStep) =>
  /^returned$|tool_result/i.test(kind) || /^\S+ (returned|failed): /.test(words);
const isSaid = ({ kind }: WhyStep) => /^(said|turn)|spoke|message/i.test(kind);

function iconOf(step: WhyStep): IconName {
  if (step.prompt || isAnswer(step)) return "person";
  if (step.how === "sub-run" || step.how === "handoff") return "sub";
  if (isCall(step)) return "tool";
  return isSaid(step) ? "reply" : "right";
}

/** What it did, as a verb where its kind has one. */
function verbOf(step: WhyStep): string {
  if (step.prompt) return "asked";
  if (isAnswer(step)) return "answered";
  if (isReturn(step)) return "returned";
  if (isCall(step)) return "called";
  return isSaid(step) ? "said" : step.kind;
}

const failed = ({ words }: WhyStep) => / failed: |failed$/.test(words.slice(0, 200));

/** The steps that explain: prompts, answers, what was said, failures, and the calls since something was said last. */
export function telling(steps: readonly WhyStep[]): WhyStep[] {
  const kept = steps.filter((each) => each.words && !/^(Moved|Spent|Began)$/.test(each.kind));
  const last = kept.findLastIndex((each) => isSaid(each) && !isReturn(each));
  return kept.filter((each, n) => {
    if (each.prompt || isAnswer(each) || isSaid(each) || failed(each) || each.how === "sub-run") return true;
    return n > last && !isReturn(each);
  });
}

interface Props {
  readonly steps: readonly WhyStep[];
  readonly label: string;
  /** How many were left out in the middle, and after how many of these. */
  readonly left?: number;
  readonly after?: number;
}

export function WhySteps({ steps, label, left = 0, after = 0 }: Props) {
  // A prompt is told under the name of the agent that it is for, where nobody is named.
  const agents = new Set(steps.filter((step) => !step.prompt && !isAnswer(step)).map((step) => step.agent));
  return (
    <ol className="before small" aria-label={label}>
      {steps.map((step, n) => (
        <Step
          key={step.seq}
          step={step}
          who={step.prompt && agents.has(step.agent) ? "a person" : (step.agent ?? (step.prompt ? "a person" : ""))}
          gap={left > 0 && n === after ? left : 0}
        />
      ))}
    </ol>
  );
}

/** A call by its tool and the argument that says most; what it came to without the tool, which stands before it. */
export function saying({ words }: Pick<WhyStep, "words">): { tool: string; words: string } {
  const [, tool = "", given] = /^([\w.:-]+)\((.*?)\)?$/s.exec(words) ?? [];
  if (given !== undefined) return { tool, words: argument(given) };
  const [, name = "", end = "", rest = ""] = /^([\w.:-]+) (returned|failed): (.*)$/s.exec(words) ?? [];
  return end ? { tool: name, words: `${end === "failed" ? "failed: " : ""}${rest}` } : { tool: "", words };
}

/** Of arguments told as `name=value, …`, the value that says most. */
function argument(given: string): string {
  for (const name of TELLING) {
    const found = new RegExp(`(?:^|, )${name}=(.*?)(?=, [\\w-]+=|$)`, "s").exec(given);
    if (found?.[1]) return found[1];
  }
  return given.replace(/^[\w-]+=(?=[^,]*$)/, "");
}

function Step({ step, who, gap }: { step: WhyStep; who: string; gap: number }) {
  const { tool, words } = isCall(step) || isReturn(step) ? saying(step) : { tool: "", words: step.words };
  const [, by = "", answer = words] = (isAnswer(step) && /^answered by (.+?): (.*)$/s.exec(words)) || [];
  return (
    <>
      {gap > 0 && <li className="soft gap">{gap} more</li>}
      <li>
        {failed(step) ? <StatusGlyph status="failed" /> : <Icon name={iconOf(step)} size={14} />}
        <a className="soft num" href={runHref(step.family, step.run, { seq: step.seq })}>
          {clock(step.at ?? step.received)}
          <span className="unseen"> record {step.seq}</span>
        </a>{" "}
        <span className="soft">
          <Text>{`${by || who} ${verbOf(step)}`.trim()}</Text>
        </span>
        <div className="step-words">
          {tool && (
            <>
              <span className="mono">{inert(tool)}</span>{" "}
            </>
          )}
          <Coded>{answer}</Coded>
        </div>
      </li>
    </>
  );
}
