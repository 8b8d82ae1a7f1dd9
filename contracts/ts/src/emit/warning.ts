/** Warnings on standard error. */

export function warn(text: string): void {
  // Text from elsewhere must not control a terminal.
  const plain = text.replace(/[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  try {
    process.stderr.write(`tracklog: ${plain}\n`);
  } catch {
    // there is no stderr, and a warning must not be what breaks the producer
  }
}
