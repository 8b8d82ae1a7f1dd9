/** Alerts: what fires, what is about to, what fired last, the rules, and who silenced what. */

import { useState } from "react";
import { address, post } from "../lib/api";
import { operator } from "../lib/operator";
import { href, runHref } from "../lib/route";
import { ago, briefly, clock } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { ErrorCard, Text } from "./bits";
import { Icon } from "./icons";
import { NotifyMe } from "./notify";
import { Command, Field, SettingCard, SettingForm } from "./setting-card";

const FEW = 5; // alerts and changes in the overview
const SPANS = [
  [30, "30 minutes"],
  [120, "2 hours"],
  [1440, "a day"],
  [10_080, "a week"],
] as const;

export function AlertSettings({ whole }: { whole: boolean }) {
  const now = useNow(5_000);
  const { data, trouble, again } = useAnswer(address("/api/alerts"));
  const [silenced, setSilenced] = useState<string | null>(null);
  const silence = async (fields: FormData) => {
    await post(
      "/api/alerts/silences",
      {},
      {
        match: { rule: silenced ?? "" },
        minutes: Number(fields.get("minutes")),
        because: String(fields.get("because")).trim(),
        by: String(fields.get("by")).trim(),
      },
    );
    setSilenced(null);
    again();
  };
  const { rules = [], incidents = [], changes = [], silences = [] } = data ?? {};
  const firing = incidents.filter((each) => each.state === "firing");
  const pending = incidents.filter((each) => each.state === "pending");
  return (
    <SettingCard
      id="alerts"
      title="Alerts"
      about={
        rules.length || firing.length
          ? `${firing.length} firing, ${pending.length} pending`
          : "in the browser, or by rules"
      }
      action={
        !whole && (
          <a href={href(["settings", "alerts"])}>All alerts{rules.length > FEW ? ` and ${rules.length} rules` : ""}</a>
        )
      }
    >
      <p className="row">
        <span className="grow">A question begins to wait while this page is not looked at.</span>
        <NotifyMe />
      </p>
      <p className="row">
        <span className="grow">A run fails, or is lost, while this page is not looked at.</span>
        <NotifyMe of="failures" />
      </p>
      {trouble && <ErrorCard trouble={trouble} again={again} />}
      {rules.length > 0 && (
        <table>
          <caption className="unseen">Rules</caption>
          <thead>
            <tr>
              <th>Rule</th>
              <th>When</th>
              {whole && <th>To</th>}
              <th>Last fired</th>
              <th>
                <span className="unseen">Silence</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rules.slice(0, whole ? undefined : FEW).map((rule) => (
              <tr key={rule.name}>
                <td>{rule.name}</td>
                <td className="soft">
                  <Text>{`${rule.of}: ${rule.when}`}</Text>
                  {rule.seconds > 0 && `, for ${briefly(rule.seconds)}`}
                </td>
                {whole && (
                  <td className="soft">
                    <Text>{rule.to.join(", ")}</Text>
                  </td>
                )}
                <td className="num">{rule.last_fired ? ago(rule.last_fired, now) : "–"}</td>
                <td className="num">
                  <button className="link" aria-label={`Silence ${rule.name}`} onClick={() => setSilenced(rule.name)}>
                    Silence
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {silenced !== null && (
        <SettingForm label={`Silence ${silenced}`} send="Silence it" onSend={silence} onClose={() => setSilenced(null)}>
          <p>
            <strong>{silenced}</strong> is still recorded, and sent to nobody for:
          </p>
          <Field name="minutes" label="How long">
            <select id="field-minutes" name="minutes">
              {SPANS.map(([minutes, words]) => (
                <option key={minutes} value={minutes}>
                  {words}
                </option>
              ))}
            </select>
          </Field>
          <Field name="because" label="Reason">
            <input id="field-because" name="because" required maxLength={256} autoComplete="off" />
          </Field>
          <Field name="by" label="Your name">
            <input id="field-by" name="by" required maxLength={256} defaultValue={operator()} />
          </Field>
        </SettingForm>
      )}
      {(firing.length > 0 || pending.length > 0) && (
        <table>
          <caption className="unseen">Alerts that fire or are about to</caption>
          <thead>
            <tr>
              <th>State</th>
              <th>What</th>
              <th>Since</th>
            </tr>
          </thead>
          <tbody>
            {[...firing, ...pending].slice(0, whole ? undefined : FEW).map((each) => (
              <tr key={each.id}>
                <td className={each.state === "firing" ? "failed" : "warn"}>
                  <Icon name="bell" size={13} /> {each.state}
                  {each.silenced && ", silenced"}
                </td>
                <td>
                  {each.of === "runs" && each.key.includes(":") ? (
                    <a
                      href={runHref(
                        each.key.slice(0, each.key.indexOf(":")),
                        each.key.slice(each.key.indexOf(":") + 1),
                      )}
                    >
                      <Text>{each.summary || each.key}</Text>
                    </a>
                  ) : (
                    <Text>{each.summary || `${each.rule}: ${each.key}`}</Text>
                  )}
                </td>
                <td className="num">{ago(each.since, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {silences.length > 0 && (
        <ul className="plain-list" aria-label="Silences">
          {silences.map((each) => (
            <li key={`${each.until} ${each.by} ${JSON.stringify(each.match)}`} className="soft">
              <Text>
                {Object.entries(each.match)
                  .map(([name, pattern]) => `${name} ${pattern}`)
                  .join(", ")}
              </Text>{" "}
              silenced until {clock(each.until)} by <Text>{`${each.by}: ${each.because}`}</Text>
            </li>
          ))}
        </ul>
      )}
      {changes.length > 0 && (
        <table>
          <caption className="unseen">What fired and ended last</caption>
          <thead>
            <tr>
              <th>Last</th>
              <th>What</th>
              <th>When</th>
            </tr>
          </thead>
          <tbody>
            {changes.slice(0, whole ? undefined : FEW).map((each) => (
              <tr key={`${each.id} ${each.state} ${each.at}`}>
                <td className={each.state === "resolved" ? "done" : ""}>{each.state}</td>
                <td>
                  <Text>{each.summary}</Text>
                  <span className="soft">{each.silenced ? ", silenced" : reached(each)}</span>
                </td>
                <td className="num">{ago(each.at, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {data && !rules.length && (
        <Command command={"tracklog alerts ready > alerts.yaml\ntracklog serve --alerts alerts.yaml"}>
          No rules are set up here. The first command prints rules to begin with, the second follows them.
        </Command>
      )}
    </SettingCard>
  );
}

/** Whom a message reached, and whom it did not. */
function reached({ to, sent }: { to: readonly string[]; sent: readonly string[] }): string {
  const missed = to.filter((name) => !sent.includes(name));
  return [sent.length ? ` to ${sent.join(", ")}` : "", missed.length ? ` not sent to ${missed.join(", ")}` : ""].join(
    "",
  );
}
