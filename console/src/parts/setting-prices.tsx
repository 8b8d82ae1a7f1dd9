/** Prices of models: the built-in list, one's own, and those that are missing. */

import { useState } from "react";
import { address, post } from "../lib/api";
import { useAnswer } from "../lib/use";
import { Text } from "./bits";
import { Icon } from "./icons";
import { Field, SettingCard, SettingForm } from "./setting-card";

const RATES = [
  ["input", "Input"],
  ["output", "Output"],
  ["cache_read", "Cache read"],
  ["cache_write", "Cache write"],
] as const;
const dollars = (value: number | null): string => (value === null ? "–" : value.toFixed(value < 1 ? 3 : 2));

export function PriceSettings() {
  const { data, again } = useAnswer(address("/api/settings/prices"), "seldom");
  const [model, setModel] = useState<string | null>(null);
  const add = async (fields: FormData) => {
    const rate = (name: string) => (fields.get(name) === "" ? null : Number(fields.get(name)));
    await post(
      "/api/settings/prices",
      {},
      {
        model: String(fields.get("model")).trim(),
        input: Number(fields.get("input")),
        output: Number(fields.get("output")),
        cache_read: rate("cache_read"),
        cache_write: rate("cache_write"),
      },
    );
    setModel(null);
    again();
  };
  const rows = data?.prices ?? [];
  return (
    <SettingCard
      id="prices"
      title="Prices"
      about={`for costs marked ~${data ? `, list of ${data.as_of}` : ""}`}
      action={
        <button onClick={() => setModel(model === null ? "" : null)}>
          <Icon name="plus" size={12} /> Add
        </button>
      }
    >
      {model !== null && (
        <SettingForm key={model} label="A price" send="Set the price" onSend={add} onClose={() => setModel(null)}>
          <Field name="model" label="Model">
            <input id="field-model" name="model" required maxLength={256} defaultValue={model} autoComplete="off" />
          </Field>
          {RATES.map(([name, label]) => (
            <Field key={name} name={name} label={`${label}, $ per million`}>
              <input
                id={`field-${name}`}
                name={name}
                type="number"
                min="0"
                step="any"
                required={!name.startsWith("cache")}
              />
            </Field>
          ))}
        </SettingForm>
      )}
      {rows.length > 0 ? (
        <table>
          <thead>
            <tr>
              <th>Model, $ per M</th>
              {RATES.map(([name, label]) => (
                <th key={name} className="num">
                  {label}
                </th>
              ))}
              <th>Source</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.model}>
                <td className={row.source ? "" : "warn"}>
                  <Text>{row.model}</Text>
                </td>
                {RATES.map(([name]) => (
                  <td key={name} className="num">
                    {dollars(row[name])}
                  </td>
                ))}
                <td className="soft">
                  {row.source === null ? (
                    <button
                      className="link"
                      aria-label={`Set a price of ${row.model}`}
                      onClick={() => setModel(row.model)}
                    >
                      Set a price
                    </button>
                  ) : (
                    `${row.source === "own" ? "yours" : "built in"}${row.since ? `, ${row.since}` : ""}`
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="soft">No model was used yet.</p>
      )}
    </SettingCard>
  );
}
