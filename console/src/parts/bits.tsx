/** Small things that every page shows. */

import { Component, type ReactNode } from "react";
import type { RunRow } from "../lib/answers";
import type { Trouble } from "../lib/api";
import { inert } from "../lib/text";
import { ago, exact } from "../lib/time";

export function StatusMark({ status }: { status: RunRow["status"] }) {
  return <span className={`status ${status}`}>{status}</span>;
}

/** What a run came to, verbatim; where its agents came to different ends, each with its count. */
export function outcomeOf({ outcome, outcomes }: RunRow): string {
  return (
    outcome ??
    (Object.entries(outcomes)
      .map(([end, n]) => `${end} ${n}`)
      .join(", ") ||
      "–")
  );
}

/** With which model a run works, in which folder and on which branch, as far as it says. */
export function placeOf({ model, project, branch }: RunRow): string[] {
  const folder = project?.split(/[\\/]/).filter(Boolean).pop();
  return [model, folder, branch].filter((each): each is string => Boolean(each));
}

/** A model's name; its maker is hidden, but for screen readers. */
export function Model({ name }: { name: string | null }) {
  const [, maker = "", rest = ""] = /^((?:[\w.-]+\/)*(?:claude-)?)(.*)$/.exec(name ?? "") ?? [];
  return (
    <>
      {maker && rest ? <span className="unseen">{inert(maker)}</span> : inert(maker)}
      <Text>{rest}</Text>
    </>
  );
}

export function When({ at, now }: { at: string | null | undefined; now: number }) {
  return (
    <time className="soft small" dateTime={at ?? undefined} title={exact(at)}>
      {ago(at, now)}
    </time>
  );
}

export function Text({ children }: { children: string | null | undefined }) {
  return <bdi>{inert(children ?? "")}</bdi>;
}

/** Text in which words between backticks are code. */
export function Coded({ children }: { children: string | null | undefined }) {
  const parts = (children ?? "").split(/`([^`\n]+)`/);
  return <bdi>{parts.map((part, n) => (n % 2 ? <code key={n}>{inert(part)}</code> : inert(part)))}</bdi>;
}

export function ErrorCard({ trouble, again }: { trouble: Trouble | Error; again?: (() => void) | undefined }) {
  const hint = "hint" in trouble ? trouble.hint : "";
  return (
    <div className="card stack" role="alert">
      <h2>This could not be answered</h2>
      <p>{inert(trouble.message)}</p>
      {hint && !/^GET /.test(hint) && <p className="soft">{inert(hint)}</p>}
      <p className="row">
        {again && <button onClick={again}>Try again</button>}
        {"status" in trouble && trouble.status === 404 && <a href="#/">All runs</a>}
      </p>
    </div>
  );
}

/** What cannot be drawn, or could not be fetched, is said; the frame around it stays. */
export class Caught extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return <ErrorCard trouble={error} again={() => location.reload()} />;
  }
}

export function Empty({ title, run }: { title: string; run: ReactNode }) {
  return (
    <div className="empty">
      <p>{title}</p>
      {run && <pre>{run}</pre>}
    </div>
  );
}

export function Card({ title, more, children }: { title: string; more?: ReactNode; children: ReactNode }) {
  const id = `card-${title.replace(/\W+/g, "-").toLowerCase()}`;
  return (
    <section className="card stack" aria-labelledby={id}>
      <div className="row">
        <h2 id={id} className="grow">
          {title}
        </h2>
        {more}
      </div>
      {children}
    </section>
  );
}

/** Names and their values, one pair below the other. */
export function Pairs({ pairs }: { pairs: readonly (readonly [string, string])[] }) {
  return (
    <dl className="pairs">
      {pairs.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Text>{value}</Text>
          </dd>
        </div>
      ))}
    </dl>
  );
}
