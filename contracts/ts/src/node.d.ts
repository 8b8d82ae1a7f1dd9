/** The few names of Node that are used here, so that no package of types is needed. */

declare module "node:fs" {
  export function openSync(path: string, flags: string, mode?: number): number;
  export function writeSync(file: number, bytes: Uint8Array): number;
  export function fsyncSync(file: number): void;
  export function closeSync(file: number): void;
  export function readdirSync(path: string | URL): string[];
  export function readFileSync(path: string | URL | number, encoding: "utf8"): string;
  export function existsSync(path: string | URL): boolean;
  export function mkdtempSync(prefix: string): string;
  export function fstatSync(file: number): { readonly size: number; isFile(): boolean };
  export function statSync(path: string | URL): { readonly mode: number };
  export function readSync(
    file: number,
    into: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): number;
  export function writeFileSync(path: string, text: string): void;
}

declare module "node:os" {
  export function tmpdir(): string;
}

declare module "node:child_process" {
  export function spawnSync(
    command: string,
    args: readonly string[],
    options?: { input?: string; encoding: "utf8"; env?: Record<string, string | undefined> },
  ): { readonly status: number | null; readonly stdout: string; readonly stderr: string };
}

declare const process: {
  readonly argv: readonly string[];
  readonly execPath: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: { write(text: string): boolean };
  readonly stderr: { write(text: string): boolean };
  exitCode: number | undefined;
};

interface ImportMeta {
  readonly url: string;
}

declare class URL {
  constructor(url: string, base?: string | URL);
  readonly href: string;
  readonly pathname: string;
}

declare class TextEncoder {
  encode(text: string): Uint8Array;
}

declare class TextDecoder {
  constructor(encoding?: string, options?: { ignoreBOM?: boolean });
  decode(bytes: Uint8Array): string;
}

declare const crypto: {
  randomUUID(): string;
};
