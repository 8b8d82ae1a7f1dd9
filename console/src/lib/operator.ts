/** The name under which a person answers and acts here; this browser remembers it. */

const NAME = "tracklog.operator";

export function operator(): string {
  return localStorage.getItem(NAME) ?? "operator";
}

export function remember(name: string): void {
  localStorage.setItem(NAME, name);
}
