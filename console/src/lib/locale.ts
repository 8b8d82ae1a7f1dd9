/** The language of a browser in the POSIX locale is `en-US@posix`. `Intl` refuses that, and with it every chart. */

export function isLanguage(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length > 0;
  } catch {
    return false;
  }
}

if (typeof navigator !== "undefined" && !isLanguage(navigator.language)) {
  Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
}
