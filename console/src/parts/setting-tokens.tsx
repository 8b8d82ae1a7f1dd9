/** Access tokens: who may do what; a new one is shown once. */

import { useState } from "react";
import type { TokenBody } from "../lib/answers";
import { address, explained, keepingPage, logIn, post } from "../lib/api";
import { ago } from "../lib/time";
import { showToast } from "../lib/toasts";
import { useAnswer, useNow } from "../lib/use";
import { Text } from "./bits";
import { Icon } from "./icons";
import { Command, Field, SettingCard, SettingForm } from "./setting-card";

type Role = TokenBody["role"];
const MAY = {
  write: "send events",
  read: "read",
  operate: "read, answer, mark",
  admin: "everything",
} as const satisfies Record<Role, string>;

export function TokenSettings() {
  const now = useNow(30_000);
  const { data, trouble, again } = useAnswer(address("/api/settings/tokens"), "seldom");
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<{ name: string; token: string } | null>(null);
  const add = async (fields: FormData) => {
    const days = Number(fields.get("days"));
    const body = {
      name: String(fields.get("name")).trim(),
      role: String(fields.get("role")) as Role,
      ...(days > 0 ? { days } : {}),
    };
    // With the first token this browser is asked for one, too: it gives the new one at once.
    const { token, row } = await keepingPage(async () => {
      const answer = await post("/api/settings/tokens", {}, body);
      if (data?.open) await logIn(answer.token);
      return answer;
    });
    setMade({ name: row.name, token });
    setAdding(false);
    again();
  };
  const revoke = async (token: string) => {
    try {
      await post("/api/settings/tokens/{token}/revoke", { token }, {});
      again();
    } catch (error) {
      showToast({ key: `token ${token}`, words: explained(error), failed: true });
    }
  };
  const tokens = data?.tokens ?? [];
  return (
    <SettingCard
      id="tokens"
      title="Access tokens"
      about="who may read, write and answer"
      action={
        !trouble && (
          <button onClick={() => setAdding(!adding)}>
            <Icon name="plus" size={12} /> New token
          </button>
        )
      }
    >
      {made && (
        <div className="shown-once" role="status">
          <p>
            The token of <Text>{made.name}</Text>. Copy it now: it is not shown again.
          </p>
          <pre className="code">{made.token}</pre>
          <button onClick={() => setMade(null)}>I have it</button>
        </div>
      )}
      {adding && (
        <SettingForm label="New token" send="Make the token" onSend={add} onClose={() => setAdding(false)}>
          <Field name="name" label="Name">
            <input id="field-name" name="name" required maxLength={256} autoComplete="off" />
          </Field>
          <Field name="role" label="May">
            <select id="field-role" name="role" defaultValue={data?.open ? "admin" : "write"}>
              {Object.entries(data?.open ? { admin: MAY.admin } : MAY).map(([role, may]) => (
                <option key={role} value={role}>
                  {role}: {may}
                </option>
              ))}
            </select>
          </Field>
          <Field name="days" label="Valid for days (empty: always)">
            <input id="field-days" name="days" type="number" min="1" max="36500" />
          </Field>
          {data?.open && (
            <p className="warn">
              With the first token the collector asks everybody for one. So the first one may do everything, and this
              browser keeps it.
            </p>
          )}
        </SettingForm>
      )}
      {trouble && (
        <Command command="tracklog token list">
          Tokens are listed for who may do everything; the command does so on the machine of the collector.
        </Command>
      )}
      {tokens.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th>May</th>
              <th>Id</th>
              <th>Made</th>
              <th>
                <span className="unseen">Revoke</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {tokens.map((token) => (
              <tr key={token.id} className={token.state === "active" ? "" : "soft"}>
                <td>
                  <Text>{token.name}</Text>
                </td>
                <td>
                  {MAY[token.role as Role] ?? token.role}
                  {token.run_prefix && <Text>{`, runs ${token.run_prefix}…`}</Text>}
                </td>
                <td className="mono">{token.id}</td>
                <td>{ago(token.created, now)}</td>
                <td className="num">
                  {token.state === "active" ? (
                    <button className="link" aria-label={`Revoke ${token.name}`} onClick={() => void revoke(token.id)}>
                      Revoke
                    </button>
                  ) : (
                    token.state
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {data && !tokens.length && (
        <p className="soft">
          {data.open
            ? "There is no token: whoever reaches this collector may do everything."
            : "There is no token besides that of the collector."}
        </p>
      )}
    </SettingCard>
  );
}
