/** Time along a line from 0 to 1: linear, but for long gaps, which are cut. */

export interface Axis {
  readonly x: (at: number) => number;
  readonly time: (x: number) => number;
  /** Where a gap was cut: its place, and from when until when it was. */
  readonly breaks: readonly (Gap & { readonly x: number })[];
}

interface Stretch {
  readonly begin: number;
  readonly end: number;
  /** Where it begins and ends on the line. */
  readonly from: number;
  readonly to: number;
}

const GAP = 600_000; // milliseconds
const BREAK = 0.015; // of the line
const MOST = 20; // gaps that are cut; then only longer ones are

export interface Gap {
  readonly from: number;
  readonly to: number;
}

/** The long times without any of the moments between a first and a last. */
export function gapsOf(moments: Iterable<number>, first: number, last: number): Gap[] {
  const gaps: Gap[] = [];
  let before = first;
  for (const at of [...Float64Array.from(moments).sort(), last]) {
    if (at - before > GAP) gaps.push({ from: before, to: at });
    before = Math.max(before, at);
  }
  return gaps;
}

/** The axis from a first to a last moment, without the gaps. */
export function axisOf(gaps: readonly Gap[], first: number, last: number): Axis {
  const cut = [...gaps]
    .sort((a, b) => b.to - b.from - (a.to - a.from))
    .slice(0, MOST)
    .sort((a, b) => a.from - b.from);
  const gone = cut.reduce((sum, { from, to }) => sum + to - from, 0);
  const all = Math.max(last - first - gone, 1);
  const room = 1 - BREAK * cut.length;
  const stretches: Stretch[] = [];
  let [begin, x] = [first, 0];
  for (const { from, to } of [...cut, { from: last, to: last }]) {
    const end = x + ((from - begin) / all) * room;
    stretches.push({ begin, end: from, from: x, to: end });
    [begin, x] = [to, end + BREAK];
  }
  const share = (value: number, low: number, high: number) =>
    high > low ? Math.min(Math.max((value - low) / (high - low), 0), 1) : 0;
  return {
    x: (at) => {
      const here = stretches.findLast((each) => at >= each.begin) ?? stretches[0];
      return here ? here.from + share(at, here.begin, here.end) * (here.to - here.from) : 0;
    },
    time: (place) => {
      const here = stretches.findLast((each) => place >= each.from) ?? stretches[0];
      return here ? here.begin + share(place, here.from, here.to) * (here.end - here.begin) : first;
    },
    breaks: cut.map(({ from, to }, n) => ({ x: (stretches[n]?.to ?? 0) + BREAK / 2, from, to })),
  };
}
