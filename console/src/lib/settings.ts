/** The parts of the settings: the name in the address, the title, other words that people look for, and the icon. */
export const SETTINGS = [
  ["tokens", "Access tokens", "keys roles login password revoke", "link"],
  ["prices", "Prices", "cost models dollars", "price"],
  ["alerts", "Alerts", "rules notifications silence bell", "bell"],
  ["storage", "Storage", "disk backup prune retention archive", "disk"],
  ["secrets", "Secrets", "passwords keys erase redact", "flag"],
  ["witnesses", "Checkpoints", "witness proof signature chain tamper", "shield"],
  ["sources", "Sources", "import agents connect", "inbox"],
  ["appearance", "Appearance", "dark light theme colours", "theme"],
  ["keys", "Keyboard", "shortcuts single keys", "keys"],
] as const;

export type SettingPart = (typeof SETTINGS)[number][0];
