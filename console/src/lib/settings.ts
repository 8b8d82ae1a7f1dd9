/** The parts of the settings: the name in the address, the title, and other words that people look for. */
export const SETTINGS = [
  ["tokens", "Access tokens", "keys roles login password revoke"],
  ["prices", "Prices", "cost models dollars"],
  ["alerts", "Alerts", "rules notifications silence bell"],
  ["storage", "Storage", "disk backup prune retention archive"],
  ["secrets", "Secrets", "passwords keys erase redact"],
  ["witnesses", "Checkpoints", "witness proof signature chain tamper"],
  ["sources", "Sources", "import agents connect"],
  ["appearance", "Appearance", "dark light theme colours"],
  ["keys", "Keyboard", "shortcuts single keys"],
] as const;

export type SettingPart = (typeof SETTINGS)[number][0];
