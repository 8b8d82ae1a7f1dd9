/** The graph of a run as it is drawn: of many nodes, those that are alike are taken together. */

import type { GraphAnswer, GraphEdge, GraphNode } from "./answers";

const MANY = 60; // nodes; then siblings of one kind are one node

export interface Drawn extends GraphNode {
  /** How many nodes it stands for. */
  readonly times: number;
}

/** The nodes and edges; of more than sixty nodes, siblings without children of their own are one. */
export function grouped(answer: GraphAnswer): { nodes: Drawn[]; edges: GraphEdge[] } {
  const { nodes, edges } = alone(answer);
  const groups = nodes.length > MANY ? groupsOf(nodes, edges) : new Map<string, string>();
  const group = (id: string): string => groups.get(id) ?? id;
  const drawn = new Map<string, Drawn>();
  for (const node of nodes) {
    const known = drawn.get(group(node.id));
    drawn.set(group(node.id), known ? together(known, node) : { ...node, id: group(node.id), times: 1 });
  }
  const joined = new Map<string, GraphEdge>();
  for (const edge of edges) {
    const [source, target] = [group(edge.source), group(edge.target)];
    const key = `${source} ${edge.kind} ${target}`;
    const known = joined.get(key);
    joined.set(key, {
      ...edge,
      source,
      target,
      count: edge.count + (known?.count ?? 0),
      tokens_there: sum(edge.tokens_there, known?.tokens_there ?? null),
      tokens_back: sum(edge.tokens_back, known?.tokens_back ?? null),
    });
  }
  return { nodes: [...drawn.values()], edges: [...joined.values()] };
}

/** The graph without an agent that does all of its run: the run has its name. */
function alone({ nodes, edges }: GraphAnswer): GraphAnswer {
  const acts = edges.filter((edge) => edge.kind === "acts");
  const [only] = acts;
  const run = nodes.find((node) => node.id === only?.source);
  const agent = nodes.find((node) => node.id === only?.target);
  if (acts.length !== 1 || !run || !agent || agent.calls !== run.calls) return { nodes, edges };
  const to = (id: string) => (id === agent.id ? run.id : id);
  return {
    nodes: nodes
      .filter((node) => node !== agent)
      .map((node) => (node === run ? { ...run, name: agent.name ?? run.name } : node)),
    edges: edges
      .filter((edge) => edge !== only)
      .map((edge) => ({ ...edge, source: to(edge.source), target: to(edge.target) })),
  };
}

const [THIN, THICK] = [1, 5]; // pixels

/** How thick an edge is drawn: by its tokens, against the edge with the most. */
export function widthOf(edge: GraphEdge, edges: readonly GraphEdge[]): number {
  const tokens = (each: GraphEdge): number => (each.tokens_there ?? 0) + (each.tokens_back ?? 0);
  const most = Math.max(...edges.map(tokens));
  return most ? THIN + (THICK - THIN) * Math.sqrt(tokens(edge) / most) : THIN;
}

/** By node, the group that it is drawn in: nodes that one other leads to, and that lead nowhere. */
function groupsOf(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Map<string, string> {
  const leading = new Set(edges.map((edge) => edge.source));
  const into = new Map<string, GraphEdge[]>();
  for (const edge of edges) into.set(edge.target, [...(into.get(edge.target) ?? []), edge]);
  const found = new Map<string, string>();
  for (const node of nodes) {
    const [edge, ...more] = into.get(node.id) ?? [];
    if (edge && !more.length && !leading.has(node.id))
      found.set(node.id, `${edge.source}/${edge.kind}/${node.status ?? ""}`);
  }
  return found;
}

const sum = (a: number | null, b: number | null): number | null => (a === null ? b : b === null ? a : a + b);

function together(one: Drawn, other: GraphNode): Drawn {
  return {
    ...one,
    times: one.times + 1,
    calls: one.calls + other.calls,
    failures: one.failures + other.failures,
    cost_usd: sum(one.cost_usd, other.cost_usd),
    computed_usd: sum(one.computed_usd, other.computed_usd),
    lower_bound: one.lower_bound || other.lower_bound,
    share: sum(one.share, other.share),
  };
}
