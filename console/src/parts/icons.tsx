/** Small pictures: of places, of actions, and one shape for each status. */

import type { RunRow } from "../lib/answers";

const PATHS = {
  fleet: "M2 4h12M2 8h12M2 12h12",
  inbox: "M2 9.5V12a1.5 1.5 0 0 0 1.5 1.5h9A1.5 1.5 0 0 0 14 12V9.5M2 9.5l2-6h8l2 6M2 9.5h3.5l1 2h3l1-2H14",
  insights: "M2.5 13.5v-4M6.2 13.5v-11M9.8 13.5V6M13.5 13.5v-8",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.6 10.6 14 14",
  compare: "M5 13V3M5 3 2.5 5.5M5 3l2.5 2.5M11 3v10M11 13l-2.5-2.5M11 13l2.5-2.5",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3l2 1.5",
  reply: "M3 3h10a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1H7l-3 2.5V11H3a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1Z",
  shield: "M8 1.8 13 3.5v4c0 3.2-2 5.4-5 6.7-3-1.3-5-3.5-5-6.7v-4L8 1.8ZM5.8 8l1.6 1.6L10.4 6.4",
  theme: "M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6",
  keys: "M1.5 4h13v8h-13zM4 7h.01M6.7 7h.01M9.4 7h.01M12 7h.01M5 9.7h6",
  down: "m4 6 4 4 4-4",
  filter: "M2.5 3.5h11L9.5 8.3v4l-3 1.2V8.3z",
  close: "m4 4 8 8M12 4l-8 8",
  right: "m6 4 4 4-4 4",
  first: "M4 3v10M12.5 3.5 7 8l5.5 4.5z",
  back: "M11 3.5 5.5 8l5.5 4.5z",
  play: "M5 3.5 11 8l-6 4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  last: "M12 3v10M3.5 3.5 9 8l-5.5 4.5z",
  link: "M6.5 9.5l3-3M5.5 7 4 8.5a2.5 2.5 0 0 0 3.5 3.5L9 10.5M7 5.5 8.5 4A2.5 2.5 0 0 1 12 7.5L10.5 9",
  export: "M8 10V2M8 2 5 5M8 2l3 3M3 9v4h10V9",
  settings: "M2 4.5h7M12 4.5h2M2 11.5h2M7 11.5h7M10.5 3v3M5.5 10v3",
  plus: "M8 3v10M3 8h10",
  person: "M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8ZM3 13.5c.5-2.7 2.5-4 5-4s4.500 1.300 5 4",
  robot: "M4 6h8v6.500H4zM8 3.500V6M6.300 9h.01M9.700 9h.01M2.500 8.500v2M13.500 8.500v2",
  tool: "M2.500 3.500h11v9h-11zM5 6.500l2 1.700-2 1.700M8.500 10h2.500",
  sub: "M4 3v5.500h4M8 6.500h5v5H8z",
  thought: "M8 2.500a4 4 0 0 1 2.200 7.300v1.700H5.800V9.800A4 4 0 0 1 8 2.500ZM6.500 13.500h3",
  bell: "M4 11.500V7a4 4 0 0 1 8 0v4.500M2.800 11.500h10.400M7 13.500h2",
  swap: "M2.500 5.500h10M10 3l2.500 2.500L10 8M13.500 10.500h-10M6 8l-2.500 2.500L6 13",
  price:
    "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM10 6.200A2.200 1.600 0 0 0 8 5.200c-2.700 0-2.700 2.800 0 2.800s2.700 2.800 0 2.800a2.200 1.600 0 0 1-2-1M8 4.200v7.600",
  disk: "M2.500 9.500h11v3.500h-11zM2.500 9.500l2-6h7l2 6M11 11.300h.01",
  tick: "m3 8.500 3.200 3.200L13 5",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  branch:
    "M5 2.5v8M5 13.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3ZM11 6a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3ZM11 6c0 3-6 2-6 4.500",
  flag: "M4 14V2.500h8l-2 3 2 3H4",
} as const;

export function Icon({ name, size = 16 }: { name: keyof typeof PATHS; size?: number }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** A picture for a tool, by what its name says. */
export function toolIcon(tool: string): "file" | "search" | "sub" | "link" | "tool" {
  if (/read|edit|write|file|patch/i.test(tool)) return "file";
  if (/grep|search|glob|find/i.test(tool)) return "search";
  if (/task|agent|delegate/i.test(tool)) return "sub";
  return /fetch|http|web/i.test(tool) ? "link" : "tool";
}

export function Logo() {
  return (
    <svg className="logo" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
      <rect width="24" height="24" rx="6" />
      <path d="M4.5 13h3.2l2-6.5 4 11.5 2.3-8 1 3h2.5" />
    </svg>
  );
}

const GLYPHS: Record<RunRow["status"], React.ReactNode> = {
  waiting: (
    <>
      <path className="fill" d="M8 .8 15.2 8 8 15.2.8 8z" />
      <path className="on" d="M6.5 5.5v5M9.5 5.5v5" />
    </>
  ),
  failed: (
    <>
      <rect className="fill" x="1.5" y="1.5" width="13" height="13" rx="3" />
      <path className="on" d="m5.5 5.5 5 5M10.5 5.5l-5 5" />
    </>
  ),
  lost: <circle className="ring" cx="8" cy="8" r="6" strokeDasharray="2.4 2.3" />,
  working: (
    <>
      <circle className="pale" cx="8" cy="8" r="6" />
      <path className="ring" d="M8 2a6 6 0 0 1 6 6" />
      <circle className="fill" cx="8" cy="8" r="2" />
    </>
  ),
  done: (
    <>
      <circle className="fill" cx="8" cy="8" r="6.6" />
      <path className="on" d="m5.2 8.2 2 2 3.6-4.2" />
    </>
  ),
};

/** The status as a shape and a colour; its word stands beside it, or is there for screen readers. */
export function StatusGlyph({ status }: { status: RunRow["status"] }) {
  return (
    <svg className={`glyph ${status}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      {GLYPHS[status]}
    </svg>
  );
}
