/** Who worked with whom: runs, their agents and people, and what was handed over. */

import dagre from "@dagrejs/dagre";
import {
  Background,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeProps,
  Panel,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useEffect, useMemo, useRef } from "react";
import type { GraphEdge, ShowAnswer } from "../lib/answers";
import { address } from "../lib/api";
import { type Drawn, grouped, widthOf } from "../lib/graph";
import { href, runHref, setQuery, useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { briefly, clock, cost, count, duration, percent, short, spentBy } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { ErrorCard, Model, Pairs, Text } from "./bits";
import { Icon, StatusGlyph } from "./icons";
import { Segmented } from "./tools";
import { Tree } from "./tree";

const [WIDE, HIGH] = [184, 92];
const MAPPED = 6; // of more nodes there is a map
/** Room for what stands over the graph: the choice of its form above, legend, map and controls below. */
const fitOf = (mapped: boolean) =>
  ({ maxZoom: 1, padding: { top: "60px", right: "64px", bottom: mapped ? "104px" : "56px", left: "40px" } }) as const;

type RunNode = Node<Drawn & { readonly here: boolean; [key: string]: unknown }, "node">;

const nameOf = (node: Drawn): string => (node.kind === "person" ? "You" : (node.name ?? node.id));
const DASHED: readonly GraphEdge["kind"][] = ["resume", "question"];
const MARKER: Partial<Record<GraphEdge["kind"], string>> = { question: "var(--signal-fill)" };
const VERBS: Partial<Record<GraphEdge["kind"], string>> = { acts: "", question: "asks" };

/** The parts of a label, one below the other. */
function Lines({ words }: { words: string }) {
  return words.split(" / ").map((line, n, { length }) => (
    <tspan key={line} x="0" dy={n ? "1.25em" : `${-0.62 * (length - 1)}em`}>
      {line}
      {n < length - 1 && <tspan fontSize="0"> / </tspan>}
    </tspan>
  ));
}

/** What passed along an edge, how often, and the tokens there and back. */
function labelOf({ kind, count: times, tokens_there, tokens_back }: GraphEdge): string {
  const tokens = [
    ["brief", tokens_there],
    ["back", tokens_back],
  ].flatMap(([name, amount]) => (typeof amount === "number" ? [`${name} ${short(amount)}`] : []));
  const verb = tokens.length && kind === "sub-run" ? "" : (VERBS[kind] ?? kind);
  return [verb, times > 1 ? `×${count(times)}` : "", tokens.join(" / ")].filter(Boolean).join(" ");
}

/** Left to right, without crossings where possible. */
function placed(nodes: readonly Drawn[], edges: readonly GraphEdge[]): Map<string, { x: number; y: number }> {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 26, ranksep: 132 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { width: WIDE, height: HIGH });
  for (const edge of edges.toReversed()) graph.setEdge(edge.source, edge.target);
  dagre.layout(graph);
  return new Map(
    nodes.map(({ id }) => {
      const at = graph.node(id) as { x: number; y: number };
      return [id, { x: at.x - WIDE / 2, y: at.y - HIGH / 2 }];
    }),
  );
}

function NodeCard({ data, selected }: NodeProps<RunNode>) {
  const { kind, status, model, times, failures, seconds, share, here } = data;
  const asks = kind === "person" && status === "waiting";
  return (
    <div className={`node${selected || here ? " here" : ""}${status === "failed" ? " bad" : ""}${asks ? " asks" : ""}`}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <div className="node-name">
        {kind === "agent" ? (
          <Icon name="robot" size={13} />
        ) : (
          <StatusGlyph status={status ?? (kind === "person" ? "done" : "lost")} />
        )}
        <b className="cut">
          <Text>{nameOf(data)}</Text>
        </b>
        {times > 1 && <span>×{count(times)}</span>}
        {failures > 0 && <span className="failed">{failures}✕</span>}
      </div>
      <div className="soft cut">{model ? <Model name={model} /> : aboutOf(data)}</div>
      <div className="node-figures">
        <b>{kind === "person" ? "" : cost(data)}</b>
        <span className="soft">{seconds === null ? "" : briefly(seconds)}</span>
      </div>
      <i className="node-share">
        <i style={{ width: `${(share ?? 0) * 100}%` }} />
      </i>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
}

/** Fits the graph again when the place for it has another size, until somebody moved it. */
function Fitted({ options, moved }: { options: ReturnType<typeof fitOf>; moved: { readonly current: boolean } }) {
  const { fitView } = useReactFlow();
  const [width, height] = [useStore((state) => state.width), useStore((state) => state.height)];
  const last = useRef(options);
  last.current = options;
  useEffect(() => {
    if (width && height && !moved.current) void fitView(last.current);
  }, [width, height, fitView, moved]);
  return null;
}

/** What stands on a node without a model. */
function aboutOf({ kind, status }: Drawn): string {
  if (kind === "person") return status === "waiting" ? "to answer" : "asked";
  return kind === "agent" ? "no model" : status === null ? "not recorded" : "a run, no model";
}

const MAP = { width: 118, height: 76 };

/** The colour of a node on the map: who waits, and what failed. */
function colourOf({ data }: RunNode): string {
  const { status } = data;
  return status === "waiting" ? "var(--waiting-fill)" : status === "failed" ? "var(--failed-fill)" : "var(--c6)";
}

const TYPES = { node: NodeCard };

export default function Topology({ family, run }: { family: string; run: string }) {
  const { query } = useRoute();
  const listed = query.get("list") === "1" || query.get("view") === "tree";
  const asked = { family, run };
  const tree = useAnswer(listed ? address("/api/runs/{family}/{run}/tree", { ...asked, around: true }) : null);
  const rows = useLast(tree.data);
  const { data, trouble, again } = useAnswer(listed ? null : address("/api/runs/{family}/{run}/graph", asked));
  const graph = useLast(data);
  const show = (as: "graph" | "list") => setQuery({ list: as === "list" ? "1" : "", view: "" });
  useKeys({ t: () => show(listed ? "graph" : "list") });
  const chosen = query.get("node");
  const moved = useRef(false); // by a person
  const key = `${family}:${run}`;
  const drawn = useMemo(() => {
    const { nodes, edges } = grouped(graph ?? { nodes: [], edges: [] });
    const places = placed(nodes, edges);
    return {
      nodes: nodes.map(
        (node): RunNode => ({
          id: node.id,
          type: "node",
          position: places.get(node.id) ?? { x: 0, y: 0 },
          data: { ...node, here: node.id === key },
          width: WIDE,
          height: HIGH,
          ariaLabel: inert(`${nameOf(node)}, ${node.kind === "run" ? (node.status ?? "not recorded") : node.kind}`),
        }),
      ),
      edges: edges.map(
        (edge): Edge => ({
          id: `${edge.source} ${edge.kind} ${edge.target}`,
          source: edge.source,
          target: edge.target,
          label: <Lines words={labelOf(edge)} />,
          data: { words: labelOf(edge) },
          labelBgPadding: [6, 3],
          labelBgBorderRadius: 4,
          markerEnd: {
            type: MarkerType.ArrowClosed,
            width: 18,
            height: 18,
            markerUnits: "userSpaceOnUse",
            strokeWidth: 0,
            color: MARKER[edge.kind] ?? "var(--ink-3)",
          },
          className: edge.kind === "question" ? "asks" : "",
          style: {
            strokeWidth: widthOf(edge, edges),
            ...(DASHED.includes(edge.kind) ? { strokeDasharray: "5 4" } : {}),
          },
        }),
      ),
    };
  }, [graph, key]);
  const failed = listed ? tree.trouble : trouble;
  if (failed && !(listed ? rows : graph)) return <ErrorCard trouble={failed} again={listed ? tree.again : again} />;
  if (!(listed ? rows : graph)) return <p className="soft pad">Loading …</p>;
  const node = (drawn.nodes.find((each) => each.id === chosen) ?? drawn.nodes.find((each) => each.id === key))?.data;
  return (
    <div className="topology">
      <div className="topology-view">
        <Segmented
          label="Shown as"
          value={listed ? "list" : "graph"}
          options={[
            ["graph", "Graph"],
            ["list", "List"],
          ]}
          onChange={show}
        />
        {listed ? (
          <Tree rows={rows ?? []} family={family} run={run} />
        ) : (
          <ReactFlowProvider>
            <ReactFlow
              nodes={drawn.nodes}
              edges={drawn.edges}
              nodeTypes={TYPES}
              fitView
              fitViewOptions={fitOf(drawn.nodes.length > MAPPED)}
              minZoom={0.1}
              nodesDraggable={false}
              nodesConnectable={false}
              deleteKeyCode={null}
              onMoveStart={(event) => {
                moved.current ||= event !== null;
              }}
              proOptions={{ hideAttribution: true }}
              onNodeClick={(_, each) => setQuery({ node: each.id === key ? "" : each.id })}
            >
              <Background gap={22} />
              <Fitted options={fitOf(drawn.nodes.length > MAPPED)} moved={moved} />
              <Controls showInteractive={false} position="bottom-right" />
              {drawn.nodes.length > MAPPED && (
                <MiniMap pannable zoomable style={MAP} nodeColor={colourOf} ariaLabel="Map of the graph" />
              )}
              <Panel position="bottom-left">
                <ul className="chart-legend graph-legend">
                  <li>
                    <i className="wide" /> wider: more tokens handed over
                  </li>
                  <li>
                    <i className="wide share" /> share of the cost
                  </li>
                </ul>
              </Panel>
            </ReactFlow>
          </ReactFlowProvider>
        )}
      </div>
      {!listed && node && <About node={node} nodes={drawn.nodes} edges={drawn.edges} />}
    </div>
  );
}

interface AboutProps {
  readonly node: RunNode["data"];
  readonly nodes: readonly RunNode[];
  readonly edges: readonly Edge[];
}

function About({ node, nodes, edges }: AboutProps) {
  const [family = "", ...rest] = node.id.split(":");
  const next = edges.filter((edge) => edge.source === node.id);
  const own = node.kind === "run" && node.times === 1 ? { family, run: rest.join(":") } : null;
  const shown = useAnswer(own && address("/api/runs/{family}/{run}", own), own ?? "never").data;
  const turns = useAnswer(own && address("/api/runs/{family}/{run}/turns", own), own ?? "never").data;
  const fullest = Math.max(...(turns?.rows ?? []).map((turn) => turn.context_tokens ?? 0));
  const waited = shown?.waited_seconds ? `, ${duration(shown.waited_seconds)} waiting` : "";
  const facts = (
    [
      ["Cost", `${cost(node)}${node.share ? `, ${percent(node.share)} of all` : ""}`],
      ["Time", `${duration(node.seconds)}${waited}`],
      ["Turns", turns?.turns ? count(turns.turns) : ""],
      ["Tool calls", `${count(node.calls)}${node.failures ? `, ${count(node.failures)} failed` : ""}`],
      ["Tokens", shown?.tokens ? `${short(shown.tokens)}${cachedOf(shown)}` : ""],
      ["Context", fullest > 0 ? `${short(fullest)} tokens at its fullest` : ""],
    ] as const
  ).filter(([, value]) => value);
  return (
    <aside className="topology-about" aria-label={`The chosen ${node.kind}`}>
      <header>
        {node.status && <StatusGlyph status={node.status} />}
        <strong className="cut">
          <Text>{nameOf(node)}</Text>
        </strong>
        {node.model && (
          <span className="soft">
            <Model name={node.model} />
          </span>
        )}
        {node.kind === "run" && node.times === 1 && (
          <a className="button" href={runHref(family, rest.join(":"))}>
            Open
          </a>
        )}
      </header>
      <Pairs pairs={facts} />
      {next.length > 0 && (
        <section>
          <h2>Leads to</h2>
          <ul>
            {next.map((edge) => {
              const target = nodes.find((each) => each.id === edge.target)?.data;
              return (
                target && (
                  <li key={edge.id}>
                    {target.status ? <StatusGlyph status={target.status} /> : <i className="blank" />}
                    <span className="cut">
                      <Text>{nameOf(target)}</Text> <span className="soft">{String(edge.data?.words ?? "")}</span>
                    </span>
                    <span className="num">{target.kind === "person" ? "" : cost(target)}</span>
                  </li>
                )
              );
            })}
          </ul>
        </section>
      )}
      {node.kind === "run" && node.times === 1 && <Within family={family} run={rest.join(":")} />}
    </aside>
  );
}

/** The share of the input that came from the cache. */
function cachedOf({ tokens_in: read, tokens_cached: cached }: ShowAnswer): string {
  return read && cached ? `, ${percent(Math.min(cached / read, 1))} cached` : "";
}

const [FEW, WHOLE] = [4, 5_000]; // rows of a list; rows that are looked through, or none

/** The turns of a run that cost most, and what failed in it. */
function Within({ family, run }: { family: string; run: string }) {
  const { data } = useAnswer(address("/api/runs/{family}/{run}/spans", { family, run, limit: WHOLE }), { family, run });
  if (!data || data.cut) return null;
  const turns = data.rows
    .filter((row) => row.kind === "turn" && spentBy(row) > 0)
    .sort((a, b) => spentBy(b) - spentBy(a))
    .slice(0, FEW);
  const failed = data.rows.filter((row) => row.kind === "tool" && row.failed);
  const to = (seq: number) => runHref(family, run, { seq });
  return (
    <>
      {turns.length > 0 && (
        <section>
          <h2>Most expensive turns</h2>
          <ul>
            {turns.map((row) => (
              <li key={row.id}>
                <a className="turn-of" href={to(row.seq)}>
                  <Text>{row.name?.replace(/^t/, "T")}</Text>
                </a>
                <span className="share grow" aria-hidden="true">
                  <i style={{ width: `${(spentBy(row) / spentBy(turns[0] ?? row)) * 100}%` }} />
                </span>
                <span className="num">{cost(row)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {failed.length > 0 && (
        <section>
          <h2>Failures</h2>
          <ul>
            {failed.slice(0, FEW).map((row) => (
              <li key={row.id}>
                <StatusGlyph status="failed" />
                <a className="cut mono" href={to(row.seq)}>
                  <Text>{row.name}</Text>
                </a>
                <span className="soft num">{clock(row.start)}</span>
              </li>
            ))}
          </ul>
          {failed.length > FEW && (
            <a href={href(["run", family, run], { kind: "failed" })}>{count(failed.length - FEW)} more</a>
          )}
        </section>
      )}
    </>
  );
}
