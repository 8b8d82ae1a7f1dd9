/** tracklog: the native dialect, one line per fact, for what has no dialect of its own. */

import * as z from "zod";

import { Count, JsonObject, moment, Name, Seconds, Share } from "../shape.js";
import { type Dialect, isBody, parser } from "../stream.js";

/** UTC, RFC 3339 with Z, as fine as the source. */
const Utc = moment(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$/);
/** A run: its id, an alias of it, or {family, run}. */
const RunRef = z.union([z.string(), JsonObject]);
const What = z.enum(["run", "agent", "step"]);
const Text = z.string().optional();
const Flag = z.boolean().optional();
const Json = z.unknown().optional();
const Counts = z.record(z.string(), Count).optional();

/** Where a line came from. */
export const OriginSchema = z.looseObject({
  writer: Name,
  fidelity: z.enum(["observed", "reported", "reconstructed", "inferred"]),
  mapping: z.union([z.int(), Name]).optional(),
  path: Text,
  offset: Count.optional(),
  /** The SHA-256 of the raw record, in hex. */
  raw: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  /** The record's own key at its source; a list where several were merged. */
  record: z.union([Name, z.array(Name)]).optional(),
  /** Whose clock `at` is, when it is not the event's own. */
  clock: Name.optional(),
  generation: z.union([z.int(), z.string()]).optional(),
  /** Whether the agent may become known later. */
  unnamed: Flag,
  /** The agent, where it became known after the record was written: these lines count instead. */
  speaker: Text,
  /** Whether the source changes its records: other content under the same key is a newer version. */
  revised: z.boolean().optional(),
});

/** What every line has. */
const Frame = z.looseObject({
  id: Name,
  run: Name,
  origin: OriginSchema,
  /** Absent where the source has no clock; then the time of receipt stands in. */
  at: Utc.optional(),
  /** Of the run, when it is not tracklog. */
  family: Name.optional(),
  agent: Text,
  step: Text,
  cause: Name.optional(),
  /** A copy of another run's history: shown, never counted. */
  copied: Flag,
  /** Other values, under the names that the source gives them. */
  extra: JsonObject.optional(),
});

/** The block types that writers use, each with its own keys. */
const BLOCK_KEYS: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  thinking: ["thinking"],
  tool_use: ["tool_name", "tool_id", "tool_input"],
  tool_result: ["tool_id", "tool_content"],
  command: ["command"],
  stream: ["chunk"],
};

/** The own keys of blocks that hold text; any may have been lifted out, as {"$blob": ...}. */
const WORDS = ["text", "thinking", "command", "tool_name", "tool_id"];
const TextOrBlob = { anyOf: [{ type: "string" }, { type: "object", required: ["$blob"] }] };
const isText = (value: unknown) => typeof value === "string" || (isBody(value) && Object.hasOwn(value, "$blob"));

/** One content block; a known type has its own keys, unless it is opaque. */
export const BlockSchema = z
  .looseObject({ type: Name })
  .superRefine((block, { addIssue }) => {
    if (!Object.hasOwn(BLOCK_KEYS, block.type) || Object.hasOwn(block, "opaque")) return;
    for (const key of BLOCK_KEYS[block.type] ?? [])
      if (!Object.hasOwn(block, key))
        addIssue({ code: "custom", path: [key], message: `missing in a ${block.type} block` });
      else if (WORDS.includes(key) && !isText(block[key]))
        addIssue({ code: "custom", path: [key], message: `no text in a ${block.type} block` });
  })
  .meta({
    allOf: Object.entries(BLOCK_KEYS).map(([type, keys]) => ({
      if: {
        properties: { type: { const: type } },
        required: ["type"],
        not: { required: ["opaque"] },
      },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: {
        properties: Object.fromEntries(keys.filter((key) => WORDS.includes(key)).map((key) => [key, TextOrBlob])),
        required: [...keys],
      },
    })),
  });

export const BeganSchema = Frame.extend({
  fact: z.literal("Began"),
  what: What,
  task: Text,
  model: Text,
  software: z.looseObject({ name: Name, version: Text }).optional(),
  host: Text,
  cwd: Text,
  git: JsonObject.optional(),
  counts: Counts,
});

export const EndedSchema = Frame.extend({
  fact: z.literal("Ended"),
  what: What,
  outcome: Text,
  passed: Flag,
  score: z.number().optional(),
  reason: Text,
  error: Json,
  exit_code: z.int().optional(),
  seconds: Seconds.optional(),
  winner: Text,
  winner_kind: Text,
  winning_model: Text,
  winning_models: z.array(z.string()).optional(),
  attempt: z.int().min(1).optional(),
  part: Text,
  counts: Counts,
});

export const MovedSchema = Frame.extend({
  fact: z.literal("Moved"),
  from: z.string(),
  to: Name,
  phase: z.enum(["working", "waiting", "done", "failed"]),
  reason: Text,
});

export const CalledSchema = Frame.extend({
  fact: z.literal("Called"),
  tool: Name,
  call_id: Name,
  input: Json,
  provider_call_id: Name.optional(),
  /** The call whose sub-agent called. */
  parent_call_id: Name.optional(),
  tool_server: Text,
  by_provider: Flag,
  /** The source gave no id. */
  synthetic_id: Flag,
});

export const ReturnedSchema = Frame.extend({
  fact: z.literal("Returned"),
  call_id: Name,
  tool: Text,
  /** Absent: neither way, as when it was cancelled. */
  ok: Flag,
  output: Json,
  error: Json,
  status: Text,
  exit_code: z.int().optional(),
  seconds: Seconds.optional(),
  synthetic_id: Flag,
});

export const SaidSchema = Frame.extend({
  fact: z.literal("Said"),
  role: z.enum(["user", "assistant", "system", "world", "thought", "belief", "note"]),
  blocks: z.array(BlockSchema),
  message_id: Name.optional(),
  /** An agent. */
  to: Text,
  model: Text,
  stop_reason: Text,
  /** No person typed it. */
  injected: Flag,
});

export const DecidedSchema = Frame.extend({
  fact: z.literal("Decided"),
  verdict: Json,
  score: z.number().optional(),
  by: Text,
  about: Text,
  name: Text,
  passed: Flag,
  confidence: Share.optional(),
  threshold: Share.optional(),
  reason: Text,
  evidence: Json,
  winner: Text,
  accused: Text,
  correct: Flag,
  scores: z.record(z.string(), z.number()).optional(),
  no_contest: Flag,
})
  .refine((line) => "verdict" in line || "score" in line, {
    path: ["verdict"],
    error: "neither verdict nor score",
  })
  .meta({ anyOf: [{ required: ["verdict"] }, { required: ["score"] }] });

export const AskedSchema = Frame.extend({
  fact: z.literal("Asked"),
  question_id: Name,
  text: Text,
  /** permission, clarification, ... */
  what: Text,
  call_id: Name.optional(),
  options: z.array(z.unknown()).optional(),
  schema: Json,
  expires: Utc.optional(),
});

export const AnsweredSchema = Frame.extend({
  fact: z.literal("Answered"),
  question_id: Name,
  answer: z.unknown(),
  by: Text,
});

const RUN_LINKS = ["sub-run", "fork", "resume", "branch", "related"] as const;
const AGENT_LINKS = ["handoff", "message"] as const;
const RUN_ENDS = ["parent", "child", "other"];

export const LinkedSchema = Frame.extend({
  fact: z.literal("Linked"),
  kind: z.enum([...RUN_LINKS, ...AGENT_LINKS, "alias"]),
  parent: RunRef.optional(),
  child: RunRef.optional(),
  other: RunRef.optional(),
  from: Text,
  to: Text,
  system: Text,
  /** This run's name in that system. */
  alias: Name.optional(),
  call_id: Name.optional(),
  reason: Text,
  context: Json,
})
  .superRefine((link, { addIssue }) => {
    const fault = (path: string[]) =>
      addIssue({ code: "custom", path, message: `missing in a link of kind ${link.kind}` });
    const need = (keys: string[]) => {
      for (const key of keys) if (!(key in link)) fault([key]);
    };
    if (link.kind === "alias") need(["system", "alias"]);
    else if (link.kind === "handoff" || link.kind === "message") need(["from", "to"]);
    else if (!RUN_ENDS.some((end) => end in link)) fault(["parent"]);
  })
  .meta({
    anyOf: [
      {
        properties: { kind: { enum: [...RUN_LINKS] } },
        anyOf: RUN_ENDS.map((end) => ({ required: [end] })),
      },
      { properties: { kind: { enum: [...AGENT_LINKS] } }, required: ["from", "to"] },
      { properties: { kind: { enum: ["alias"] } }, required: ["system", "alias"] },
    ],
  });

export const SpentSchema = Frame.extend({
  fact: z.literal("Spent"),
  /** Spends with one key are one spend. */
  key: Name,
  provider: Text,
  model: Text,
  usage: JsonObject.optional(),
  /** As reported. */
  cost_usd: z.number().optional(),
  /** Not money. */
  credits: z.number().optional(),
  calls: Count.optional(),
  group: Text,
  /** In a group, whole spends replace the rest. */
  whole: Flag,
  bound: z.enum(["lower", "upper"]).optional(),
});

export const NotedSchema = Frame.extend({
  fact: z.literal("Noted"),
  label: Name,
  /** The source's own word. */
  kind: Text,
  text: Text,
  data: Json,
});

const MARKS = ["tag", "score", "note", "seen", "withdraws"];

/** A person marked a run or one of its records; no status, count or time depends on it. */
export const MarkedSchema = Frame.extend({
  fact: z.literal("Marked"),
  /** The number of the record; absent for the run itself. */
  record: z.int().min(1).optional(),
  tag: Name.optional(),
  score: z.number().optional(),
  note: Name.optional(),
  /** False takes back that it was seen. */
  seen: Flag,
  /** The id of a mark that does not hold any more. */
  withdraws: Name.optional(),
  /** The name of the account or token that was used. */
  by: Name.optional(),
  /** The name that was typed; nobody has checked it. */
  claimed_by: Name.optional(),
})
  .refine((line) => MARKS.some((key) => key in line), {
    path: ["tag"],
    error: "no tag, score, note, seen or withdraws",
  })
  .meta({ anyOf: MARKS.map((key) => ({ required: [key] })) });

export const TracklogEventSchema = z.discriminatedUnion("fact", [
  BeganSchema,
  EndedSchema,
  MovedSchema,
  CalledSchema,
  ReturnedSchema,
  SaidSchema,
  DecidedSchema,
  AskedSchema,
  AnsweredSchema,
  LinkedSchema,
  SpentSchema,
  NotedSchema,
  MarkedSchema,
]);

export type Origin = z.infer<typeof OriginSchema>;
export type Block = z.infer<typeof BlockSchema>;
export type TracklogEvent = z.infer<typeof TracklogEventSchema>;

export const dialect = {
  name: "tracklog",
  kindKey: "fact",
  kinds: {
    Began: BeganSchema,
    Ended: EndedSchema,
    Moved: MovedSchema,
    Called: CalledSchema,
    Returned: ReturnedSchema,
    Said: SaidSchema,
    Decided: DecidedSchema,
    Asked: AskedSchema,
    Answered: AnsweredSchema,
    Linked: LinkedSchema,
    Spent: SpentSchema,
    Noted: NotedSchema,
    Marked: MarkedSchema,
  },
} satisfies Dialect;

export const parseTracklogEvent = parser<TracklogEvent>(dialect);
