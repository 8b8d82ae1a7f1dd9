/** SHA-256, also where a browser has no `crypto.subtle`: over plain HTTP from another machine. */

const PRIMES: number[] = [];
for (let each = 2; PRIMES.length < 64; each++) if (PRIMES.every((prime) => each % prime !== 0)) PRIMES.push(each);

const fraction = (root: number): number => Math.floor((root % 1) * 2 ** 32) | 0;
const START: readonly number[] = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));

/** The hash of bytes, in hexadecimal digits. */
export function sha256(bytes: Uint8Array): string {
  const padded = new Uint8Array(64 * (Math.floor((bytes.length + 8) / 64) + 1));
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  let state = START;
  for (let start = 0; start < padded.length; start += 64) state = compressed(state, spread(view, start));
  return state.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

const turned = (word: number, by: number): number => (word >>> by) | (word << (32 - by));
const at = (words: Int32Array | readonly number[], place: number): number => words[place] ?? 0;

/** The 64 words that are made of a block of 16. */
function spread(view: DataView, start: number): Int32Array {
  const words = new Int32Array(64);
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(start + 4 * i);
  for (let i = 16; i < 64; i++) {
    const [x, y] = [at(words, i - 15), at(words, i - 2)];
    const more = (turned(x, 7) ^ turned(x, 18) ^ (x >>> 3)) + (turned(y, 17) ^ turned(y, 19) ^ (y >>> 10));
    words[i] = at(words, i - 16) + at(words, i - 7) + more;
  }
  return words;
}

function compressed(state: readonly number[], words: Int32Array): number[] {
  let now = [...state];
  for (let i = 0; i < 64; i++) {
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = now;
    const chosen = (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g));
    const most = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    const added = h + chosen + at(ROUNDS, i) + at(words, i);
    now = [(added + most) | 0, a, b, c, (d + added) | 0, e, f, g];
  }
  return now.map((word, place) => (word + at(state, place)) | 0);
}
