/** awf: the exchange transcript of a workflow run, its steps, messages, tools and sub-runs. */

import * as z from "zod";

import { Count, exists, moment, otherThan } from "../shape.js";
import { type Body, type Dialect, isBody, parser } from "../stream.js";

const Fidelity = z.enum(["router", "agent_emitted"]);
const Json = z.unknown();

/** The envelope. */
const Frame = z.looseObject({
  seq: z.int().min(1),
  run_id: z.string(),
  /** The invoking run, on every event of a child run. */
  parent_run_id: z.string().optional(),
  /** The invoked run, on step.call_workflow.* only. */
  child_run_id: z.string().optional(),
  /** Step names from the run's root joined by dots; empty on run events. */
  path: z.string(),
  /** The innermost loop's index, from 0; 0 outside loops. */
  iteration: Count,
  timestamp: moment(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$/),
});

const block = <Type extends string, Keys extends z.ZodRawShape>(type: Type, keys: Keys) =>
  z.looseObject({ type: z.literal(type), fidelity: Fidelity, ...keys });

/** The block types that writers use, each with its own keys. */
const BLOCK_KEYS = {
  text: ["text"],
  thinking: ["thinking"],
  tool_use: ["tool_name", "tool_id", "tool_input"],
  tool_result: ["tool_id", "tool_content"],
  command: ["command"],
  stream: ["chunk"],
};

export const BlockSchema = z.union([
  block("text", { text: z.string() }),
  block("thinking", { thinking: z.string() }),
  /** Reasoning that only its provider can read. */
  block("thinking", { opaque: Json }),
  block("tool_use", { tool_name: z.string(), tool_id: z.string(), tool_input: Json }),
  block("tool_result", { tool_id: z.string(), tool_content: Json }),
  block("command", { command: z.string() }),
  block("stream", { chunk: z.string() }),
  /** A block of a type that is not known here; kept as it is. */
  z.looseObject({ type: otherThan(Object.keys(BLOCK_KEYS)) }),
]);

/** The payload of run.* and step.*. */
export const StepSchema = z.looseObject({
  name: z.string(),
  kind: z.string(),
  error: z.string().optional(),
  result: Json.optional(),
  blocks: z.array(BlockSchema).optional(),
});

/** The payload of message.*. */
export const MessageSchema = z.looseObject({
  role: z.enum(["user", "assistant"]),
  blocks: z.array(BlockSchema),
});

/** The payload of tool.*. */
export const ToolSchema = z.looseObject({
  name: z.string(),
  /** Equal in a call and its result. */
  call_id: z.string(),
  input: Json,
  output: Json,
  error: z.string().optional(),
  fidelity: Fidelity,
  /** The same call or result once more, as a block. */
  blocks: z.array(BlockSchema),
});

const event = <Type extends string, Payload extends z.ZodType>(type: Type, payload: Payload) =>
  Frame.extend({ type: z.literal(type), payload });

const call = <Type extends string>(type: Type) => event(type, StepSchema).extend({ child_run_id: z.string() });

export const RunStartedSchema = event("run.started", StepSchema);
export const RunCompletedSchema = event("run.completed", StepSchema);
export const StepStartedSchema = event("step.started", StepSchema);
export const StepCompletedSchema = event("step.completed", StepSchema);
export const CallWorkflowStartedSchema = call("step.call_workflow.started");
export const CallWorkflowCompletedSchema = call("step.call_workflow.completed");
export const UserMessageSchema = event("message.user", MessageSchema);
export const AssistantMessageSchema = event("message.assistant", MessageSchema);
export const ToolCallSchema = event("tool.call", ToolSchema);
export const ToolResultSchema = event("tool.result", ToolSchema);

const kinds = {
  "run.started": RunStartedSchema,
  "run.completed": RunCompletedSchema,
  "step.started": StepStartedSchema,
  "step.completed": StepCompletedSchema,
  "step.call_workflow.started": CallWorkflowStartedSchema,
  "step.call_workflow.completed": CallWorkflowCompletedSchema,
  "message.user": UserMessageSchema,
  "message.assistant": AssistantMessageSchema,
  "tool.call": ToolCallSchema,
  "tool.result": ToolResultSchema,
};

/** An event of a type that is not known here: surfaced, its type intact. */
export const OtherAwfEventSchema = Frame.extend({
  type: otherThan(Object.keys(kinds), z.string().min(1)),
  payload: Json.optional(),
});

export type Block = z.infer<typeof BlockSchema>;
export type KnownAwfEvent = z.infer<(typeof kinds)[keyof typeof kinds]>;
export type OtherAwfEvent = z.infer<typeof OtherAwfEventSchema>;
export type AwfEvent = KnownAwfEvent | OtherAwfEvent;

/**
 * What the original left on disk, and lines with only what the transcript's guide names: local
 * times, absent iterations, null or empty payloads, blocks that are absent or without their keys.
 */
function tolerate(given: Body): Body {
  let body = inUtc(given);
  const { type, payload } = body;
  const isBrief = typeof type === "string" && type !== "" && !Object.hasOwn(body, "iteration");
  if (isBrief) {
    body = { ...body, iteration: 0 };
    if (type === "step.call_workflow.completed" && !Object.hasOwn(body, "child_run_id"))
      body = { ...body, child_run_id: "" };
  }
  if ((type === "run.started" || type === "run.completed") && isEmpty(payload))
    return { ...body, payload: { name: "", kind: "" } };
  if (!isKnown(kinds, type) || !isBody(payload)) return body;
  const filled = isBrief ? { ...payload, ...brief(body, type, payload) } : payload;
  const read = wholePayload(type, filled);
  return read === payload ? body : { ...body, payload: read };
}

function isEmpty(payload: unknown): boolean {
  return payload === null || (isBody(payload) && Object.keys(payload).length === 0);
}

/** The keys that only the field reference names, read from what the line does say. */
function brief(body: Body, type: keyof typeof kinds, payload: Body): Body {
  const [word, ...rest] = type.split(".");
  let filled: Body = { name: "", kind: "workflow" };
  if (word === "tool") filled = briefTool(type, payload);
  else if (word === "message") filled = { role: rest[0], ...briefBlocks(type, payload) };
  else if (word === "step") {
    const path = typeof body.path === "string" ? body.path : "";
    filled = { name: path.slice(path.lastIndexOf(".") + 1) };
    if (type.includes("call_workflow")) filled = { ...filled, kind: "call_workflow" };
    else if (type === "step.completed") filled = { ...filled, kind: "" };
  }
  return Object.fromEntries(Object.entries(filled).filter(([key]) => !Object.hasOwn(payload, key)));
}

function briefBlocks(type: string, payload: Body): Body {
  if (type !== "message.user" || typeof payload.prompt !== "string") return {};
  const parts = ["prompt", "system_prompt"].filter((part) => typeof payload[part] === "string");
  return {
    blocks: parts.map((part) => ({ type: "text", fidelity: "router", text: payload[part], part })),
  };
}

/** What a tool payload says by its one block, or by the keys of a block. */
function briefTool(type: string, payload: Body): Body {
  const { blocks } = payload;
  const first: unknown = Array.isArray(blocks) && blocks.length > 0 ? blocks[0] : payload;
  // Where it has keys of the field reference, what is missing is a fault.
  const isReference = ["name", "call_id", "input", "output"].some((key) => Object.hasOwn(payload, key));
  if (!isBody(first) || isReference) return {};
  const { tool_id: id, tool_name: name = "" } = first;
  if (typeof id !== "string" || typeof name !== "string") return {};
  const output = type === "tool.result" ? (first.tool_content ?? null) : null;
  return { name, call_id: id, input: first.tool_input ?? null, output };
}

function wholePayload(type: string, payload: Body): Body {
  if (type.startsWith("tool.") && !Object.hasOwn(payload, "blocks")) return restated(type, payload);
  if (payload.blocks === null) return { ...payload, blocks: [] };
  if (!Array.isArray(payload.blocks)) return payload;
  const blocks: unknown[] = payload.blocks.map(whole);
  const isSame = blocks.every((block, index) => block === (payload.blocks as unknown[])[index]);
  return isSame ? payload : { ...payload, blocks };
}

/** A tool payload with the one block that restates it, where it has none. */
function restated(type: string, payload: Body): Body {
  const { name, call_id: id, fidelity } = payload;
  const words = [name, id, fidelity].every((word) => typeof word === "string");
  if (!words || !Object.hasOwn(payload, "input") || !Object.hasOwn(payload, "output")) return payload; // nothing to restate: the check says what is missing
  const block = { type: "tool_use", fidelity, tool_name: name, tool_id: id };
  const own =
    type === "tool.call" ? { tool_input: payload.input } : { type: "tool_result", tool_content: payload.output };
  return { ...payload, blocks: [{ ...block, ...own }] };
}

const LOCAL = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d{1,9})?([+-]\d{2}:\d{2})$/;

function inUtc(body: Body): Body {
  const { timestamp } = body;
  const local = typeof timestamp === "string" ? LOCAL.exec(timestamp) : null;
  if (!local || !exists(local[0])) return body;
  const moved = new Date(`${local[1]}${local[3]}`);
  const utc = Number.isNaN(moved.getTime()) ? "" : moved.toISOString();
  // A day outside the years 1 to 9999 has no name; the check says so.
  if (!/^(?!0000)\d{4}-/.test(utc)) return body;
  return { ...body, timestamp: `${utc.slice(0, 19)}${local[2] ?? ""}Z` };
}

function whole(block: unknown): unknown {
  if (!isBody(block) || !isKnown(BLOCK_KEYS, block.type) || "opaque" in block) return block;
  const absent = BLOCK_KEYS[block.type].filter((key) => !Object.hasOwn(block, key));
  if (absent.length === 0) return block;
  const chunk = Object.hasOwn(block, "text") ? block.text : "";
  const empty: Body = { tool_input: null, tool_content: null, chunk };
  return {
    ...block,
    ...Object.fromEntries(absent.map((key) => [key, key in empty ? empty[key] : ""])),
  };
}

function isKnown<Words extends object>(words: Words, word: unknown): word is keyof Words {
  return typeof word === "string" && Object.hasOwn(words, word);
}

export const dialect = {
  name: "awf",
  kindKey: "type",
  kinds,
  other: OtherAwfEventSchema,
  halves: true,
  tolerate,
} satisfies Dialect;

export const parseAwfEvent = parser<AwfEvent>(dialect);
