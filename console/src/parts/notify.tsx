/** Messages of the browser, for those who asked for them: a question begins to wait, a run fails. */

import { useContext, useEffect, useMemo, useRef, useState } from "react";
import { address } from "../lib/api";
import { InboxContext, isOpen, keyOf } from "../lib/inbox";
import { href, runHref } from "../lib/route";
import { inert } from "../lib/text";
import { useAnswer } from "../lib/use";
import { Icon } from "./icons";

type Subject = "questions" | "failures";
const WANTED: Record<Subject, string> = { questions: "tracklog.notify", failures: "tracklog.notify.failures" };
const known = typeof Notification !== "undefined";
const wanted = (of: Subject): boolean =>
  known && localStorage.getItem(WANTED[of]) === "1" && Notification.permission === "granted";
const CHANGED = "tracklog.notify"; // an event: somebody asked for messages, or for none

/** Asks the browser for the permission, or takes it back. */
export function NotifyMe({ of = "questions" }: { of?: Subject }) {
  const [on, setOn] = useState(() => wanted(of));
  if (!known) return null;
  const turn = async () => {
    const next = !on && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(WANTED[of], next ? "1" : "0");
    setOn(next);
    window.dispatchEvent(new Event(CHANGED));
  };
  return (
    <button className="notify" aria-pressed={on} onClick={() => void turn()}>
      <Icon name="bell" size={13} />
      <span>Notify me{of === "failures" && <span className="unseen"> of failures</span>}</span>
    </button>
  );
}

interface Message {
  readonly key: string;
  readonly title: string;
  readonly body: string;
  readonly hash: string;
}

/** Shows each message once, while the page is not looked at; what was there at first is no news. */
function useMessages(of: Subject, messages: readonly Message[] | undefined): void {
  const shown = useRef<Set<string> | null>(null);
  useEffect(() => {
    if (!messages) return;
    const before = shown.current;
    shown.current = new Set([...(before ?? []), ...messages.map((each) => each.key)]);
    if (!before || !wanted(of) || !document.hidden) return;
    for (const { key, title, body, hash } of messages) {
      if (before.has(key)) continue;
      const message = new Notification(inert(title), { body: inert(body), tag: key });
      message.onclick = () => {
        window.focus();
        location.hash = hash;
      };
    }
  }, [of, messages]);
}

/** Messages of the browser about questions that begin to wait, and about runs that fail. */
export function Notifier() {
  const { data } = useContext(InboxContext);
  const [failures, setFailures] = useState(() => wanted("failures"));
  useEffect(() => {
    const look = () => setFailures(wanted("failures"));
    window.addEventListener(CHANGED, look);
    return () => window.removeEventListener(CHANGED, look);
  }, []);
  const failed = useAnswer(
    failures ? address("/api/board", { status: ["failed", "lost"], seen: ["no"], limit: 50, sort: "activity" }) : null,
    "always",
  );
  const questions = useMemo(
    () =>
      data?.filter(isOpen).map((question) => ({
        key: keyOf(question),
        title: question.text ?? question.question_id,
        body: [question.agent, question.title ?? question.run].filter(Boolean).join(" in "),
        hash: href(["inbox", keyOf(question)]),
      })),
    [data],
  );
  const broken = useMemo(
    () =>
      failed.data?.runs.map((run) => ({
        key: `${run.family}:${run.run} ${run.status}`,
        title: `${run.title ?? run.run} ${run.status === "lost" ? "is lost" : "failed"}`,
        body: [run.project, run.branch].filter(Boolean).join(", "),
        hash: runHref(run.family, run.run),
      })),
    [failed.data],
  );
  useMessages("questions", questions);
  useMessages("failures", broken);
  return null;
}
