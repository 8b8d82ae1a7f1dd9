/** Settings: tokens, prices, alerts, storage, checkpoints, sources, and how this browser shows them. */

import { useState } from "react";
import { setSingleKeys, singleKeys } from "../lib/keys";
import { href, useRoute } from "../lib/route";
import { SETTINGS, type SettingPart } from "../lib/settings";
import { Icon } from "../parts/icons";
import { KeyList } from "../parts/key-list";
import { AlertSettings } from "../parts/setting-alerts";
import { Command, SettingCard } from "../parts/setting-card";
import { PriceSettings } from "../parts/setting-prices";
import { CheckpointSettings, SourceSettings, StorageSettings } from "../parts/setting-record";
import { TokenSettings } from "../parts/setting-tokens";
import { AboutPage, Segmented, Tools } from "../parts/tools";

interface Props {
  readonly theme: string;
  readonly turn: () => void;
}

export default function Settings({ theme, turn }: Props) {
  const { parts } = useRoute();
  const [text, setText] = useState("");
  const part: SettingPart | undefined = SETTINGS.find(([key]) => key === parts[1])?.[0];
  const looked = text.trim().toLowerCase();
  const found = SETTINGS.filter((words) => words.join(" ").toLowerCase().includes(looked)).map(([key]) => key);
  const shows = (key: SettingPart) => (looked ? found.includes(key) : part === undefined || part === key);
  return (
    <div className="settings">
      <h1 className="unseen">Settings</h1>
      <AboutPage>stored with the journal; each change is recorded</AboutPage>
      <Tools>
        <span className="field">
          <Icon name="search" size={14} />
          <input
            type="search"
            aria-label="Find a setting"
            placeholder="Find a setting"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </span>
      </Tools>
      <nav className="settings-parts" aria-label="Parts of the settings">
        {SETTINGS.filter(([key]) => found.includes(key)).map(([key, label, , icon]) => (
          <a key={key} href={href(["settings", key])} aria-current={part === key ? "page" : undefined}>
            <Icon name={icon} size={14} /> {label}
          </a>
        ))}
      </nav>
      <div className={part && !looked ? "settings-cards one" : "settings-cards"}>
        {found.length === 0 && <p className="soft">No setting has this name.</p>}
        <div>
          {shows("tokens") && <TokenSettings />}
          {shows("alerts") && <AlertSettings whole={part === "alerts"} />}
          {shows("storage") && <StorageSettings />}
          {shows("secrets") && (
            <SettingCard id="secrets" title="Secrets" about="what looks like a key or a password">
              <Command command={"tracklog secrets\ntracklog erase RUN SEQ --reason leaked"}>
                The first command lists the records that hold one, the second takes it out.
              </Command>
            </SettingCard>
          )}
        </div>
        <div>
          {shows("prices") && <PriceSettings />}
          {shows("witnesses") && <CheckpointSettings />}
          {shows("sources") && <SourceSettings />}
          {shows("appearance") && <Appearance theme={theme} turn={turn} />}
          {shows("keys") && (
            <SettingCard id="keys" title="Keyboard" about="every key">
              <KeyList />
            </SettingCard>
          )}
        </div>
      </div>
    </div>
  );
}

function Appearance({ theme, turn }: Props) {
  const [single, setSingle] = useState(singleKeys);
  return (
    <SettingCard id="appearance" title="Appearance" about="of this browser">
      <p className="row">
        <span className="grow">Colours</span>
        <Segmented
          label="Colours"
          value={theme === "dark" ? "dark" : "light"}
          options={[
            ["light", "Light"],
            ["dark", "Dark"],
          ]}
          onChange={(next) => next !== theme && turn()}
        />
      </p>
      <label className="row">
        <span className="grow">Single keys are commands, such as J and K</span>
        <input
          type="checkbox"
          checked={single}
          onChange={(event) => {
            setSingleKeys(event.target.checked);
            setSingle(event.target.checked);
          }}
        />
      </label>
    </SettingCard>
  );
}
