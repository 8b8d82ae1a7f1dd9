/** openwop: what real hosts write differently from the contract. */

import { type Body, isBody } from "./stream.js";

/** An event that a real host writes differently from the contract, in the form of the contract. */
export function tolerated(given: Body, kinds: object): Body {
  const body = withoutNullNode(renamed(renamed(given, "seq", "sequence"), "data", "payload"));
  const { type, payload } = body;
  if (typeof type !== "string") return body;
  if (payload === null && Object.hasOwn(kinds, type)) return repaired({ ...body, payload: {} }, type, {});
  return isBody(payload) ? repaired(body, type, payload) : body;
}

function renamed(body: Body, written: string, meant: string): Body {
  if (!Object.hasOwn(body, written) || Object.hasOwn(body, meant)) return body;
  const { [written]: value, ...rest } = body;
  return { ...rest, [meant]: value };
}

function withoutNullNode(body: Body): Body {
  const { nodeId, ...rest } = body;
  return nodeId === null ? rest : body;
}

function repaired(body: Body, type: string, given: Body): Body {
  let payload = given;
  if (type === "node.failed" && typeof payload.error === "string")
    payload = { ...payload, error: { code: "node_failed", message: payload.error } };
  const node = [body.nodeId, payload.nodeId].find((name) => name);
  if (type === "node.suspended" && typeof node === "string")
    payload = { nodeId: node, interruptId: `int:${String(payload.key || node)}`, ...payload };
  payload = withKnownClasses(type, payload);
  const isSame = Object.keys(payload).every((key) => payload[key] === given[key]);
  return isSame ? body : { ...body, payload };
}

const TURNS: Readonly<Record<string, string>> = {
  "conversation.opened": "initialTurn",
  "conversation.exchanged": "turn",
  "conversation.closed": "finalTurn",
};
const PUBLISHED_ONLY_CLASSES: readonly unknown[] = [
  "tool-using",
  "chat",
  "code",
  "vision",
  "multimodal",
  "embedding",
  "retrieval",
];

/** A model class of the published schema alone has no meaning here: it is left out. */
function withKnownClasses(type: string, payload: Body): Body {
  if (type === "node.started" || type === "node.completed") return cleared(payload, "agent");
  if (type === "agent.handoff") return cleared(cleared(payload, "from"), "to");
  const key = TURNS[type] ?? "";
  const turn = payload[key];
  if (!isBody(turn)) return payload;
  const clean = cleared(turn, "agent");
  return clean === turn ? payload : { ...payload, [key]: clean };
}

function cleared(holder: Body, key: string): Body {
  const ref = holder[key];
  if (!isBody(ref) || !PUBLISHED_ONLY_CLASSES.includes(ref.modelClass)) return holder;
  const { modelClass: _, ...rest } = ref;
  return { ...holder, [key]: rest };
}
