/** What was said, block by block; whatever it holds, it does nothing. */

import { Fragment, memo, useDeferredValue } from "react";
import Markdown from "react-markdown";
import gfm from "remark-gfm";
import type { StoryBlock } from "../lib/answers";
import { inert, start } from "../lib/text";
import { count } from "../lib/time";
import { Icon } from "./icons";

interface Blob {
  sha256: string;
  bytes: number;
  media_type?: string;
  preview?: string;
}

const LONG = 20_000; // a longer text is shown as it is: drawing it as Markdown would hold up the page

export function Blocks({ blocks }: { blocks: readonly StoryBlock[] }) {
  return (
    <>
      {blocks.map((block, n) => (
        <Fragment key={n}>
          <Marks of={block} />
          <One block={block} />
        </Fragment>
      ))}
    </>
  );
}

/** What is said of a block besides what it holds. */
function Marks({ of }: { of: StoryBlock }) {
  const marks = [
    of.part === "system_prompt" && "system prompt",
    of.refusal && "refusal",
    of.partial === true && "cut off",
    of.is_error === true && "failed",
    typeof of.exit_code === "number" && `exit code ${of.exit_code}`,
  ].filter(Boolean);
  if (!marks.length) return null;
  return <p className="line soft small">{marks.join(" · ")}</p>;
}

function One({ block }: { block: StoryBlock }) {
  const fidelity = typeof block.fidelity === "string" ? block.fidelity : "";
  switch (block.type) {
    case "text":
      return <Prose text={block.text} />;
    case "thinking":
      if (typeof block.thinking !== "string")
        return <p className="soft small line">reasoning, encrypted by its provider</p>;
      return (
        <details className="thinking">
          <summary>
            <Icon name="right" size={12} /> <Icon name="thought" size={13} /> Thought:{" "}
            {inert(start(block.thinking.trim().split("\n")[0] ?? "", 120))}{" "}
            {fidelity && <span className="soft small">{inert(fidelity.replace("_", " "))}</span>}
          </summary>
          <Prose text={block.thinking} />
        </details>
      );
    case "command":
      return <pre className="code">$ {plain(block.command)}</pre>;
    case "tool_use":
      return (
        <pre className="code">
          → {plain(block.tool_name)} {plain(block.tool_input)}
        </pre>
      );
    case "tool_result":
      return <Value value={block.tool_content} />;
    case "stream":
      return <Value value={block.chunk ?? block.text} kind={String(block.provider_type ?? "")} />;
    default:
      return <Value value={block} kind={String(block.type ?? "")} />;
  }
}

const MARKED = /[*_`#[\]|<>~\\]|^\s*([-+]|\d+[.)])\s|https?:|www\.|^ {4}|---|===/m;

/** Text without any Markdown in it need not be read as such. */
export const Prose = memo(function Prose({ text }: { text: unknown }) {
  // What comes into view is there at once, and drawn as Markdown when there is time.
  const drawn = useDeferredValue(true, false);
  if (typeof text !== "string") return <Value value={text} />;
  if (text.length > LONG) return <pre className="code">{inert(text)}</pre>;
  if (!drawn || !MARKED.test(text))
    return (
      <div className="prose plain" dir="auto">
        {inert(text)}
      </div>
    );
  return (
    <div className="prose" dir="auto">
      <Markdown
        remarkPlugins={[gfm]}
        skipHtml={false}
        components={{
          // Nothing is fetched from elsewhere because somebody wrote its address.
          img: ({ alt, src }) => (
            <span className="soft">
              [image {alt ?? ""} {String(src ?? "")}]
            </span>
          ),
          a: ({ href, children }) => (
            <a href={href} rel="noopener noreferrer nofollow" target="_blank">
              {children}
            </a>
          ),
        }}
      >
        {inert(text)}
      </Markdown>
    </div>
  );
});

function blobOf(value: unknown): Blob | null {
  const found = (value as { $blob?: Blob } | null)?.$blob;
  return found && typeof found.sha256 === "string" ? found : null;
}

export function Value({ value, kind = "" }: { value: unknown; kind?: string }) {
  if (value === null || value === undefined) return null;
  const blob = typeof value === "object" ? blobOf(value) : null;
  if (blob) {
    const source = `/api/blobs/${encodeURIComponent(blob.sha256)}`;
    const image = /^image\/(png|jpeg|gif|webp|avif)$/.test(blob.media_type ?? "");
    return (
      <div>
        {image && (
          <img src={source} alt={`${blob.media_type}, ${count(blob.bytes)} bytes`} className="picture" loading="lazy" />
        )}
        <a href={source} download>
          {inert(kind || blob.media_type || "value")} · {count(blob.bytes)} bytes
        </a>
        {blob.preview && !image && <pre className="code">{inert(blob.preview)}</pre>}
      </div>
    );
  }
  return <pre className="code">{plain(value)}</pre>;
}

export function plain(value: unknown): string {
  if (value === null || value === undefined) return "";
  return inert(typeof value === "string" ? value : JSON.stringify(value, null, 1));
}
