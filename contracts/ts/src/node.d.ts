/** The few names of Node that are used here, so that no package of types is needed. */

declare module "node:fs" {
  export function openSync(path: string, flags: string | number, mode?: number): number;
  export const constants: Readonly<
    Record<"O_RDONLY" | "O_RDWR" | "O_APPEND" | "O_CREAT" | "O_NONBLOCK" | "O_NOFOLLOW", number>
  >;
  export function lstatSync(path: string): { isFile(): boolean };
  export function writeSync(
    file: number,
    bytes: Uint8Array,
    offset?: number,
    length?: number,
    position?: number,
  ): number;
  export function fsyncSync(file: number): void;
  export function closeSync(file: number): void;
  export function readdirSync(path: string | URL): string[];
  export function readFileSync(path: string | URL | number, encoding: "utf8"): string;
  export function existsSync(path: string | URL): boolean;
  export function mkdtempSync(prefix: string): string;
  export function fstatSync(file: number): { readonly size: number; isFile(): boolean };
  export function statSync(path: string | URL): { readonly mode: number; readonly size: number };
  export function ftruncateSync(file: number, size: number): void;
  export function mkdirSync(path: string, options: { recursive: true; mode: number }): void;
  export function readlinkSync(path: string): string;
  export function renameSync(from: string, to: string): void;
  export function unlinkSync(path: string): void;
  export function rmSync(path: string, options: { recursive: true; force: true }): void;
  export function appendFileSync(path: string, text: string, options?: { mode: number }): void;
  export function readSync(
    file: number,
    into: Uint8Array,
    offset: number,
    length: number,
    position: number | null,
  ): number;
  export function symlinkSync(target: string, path: string): void;
  export function writeFileSync(path: string, text: string): void;
}

declare module "node:crypto" {
  interface Hash {
    update(text: string | Uint8Array): Hash;
    update(data: string, encoding: "hex"): Hash;
    digest(encoding: "hex"): string;
  }
  export function createHash(name: "sha256"): Hash;
}

declare module "node:http" {
  type Headers = Readonly<Record<string, string | undefined>>;

  export class Agent {
    constructor(options: { keepAlive: boolean; maxSockets: number });
    destroy(): void;
  }

  export interface IncomingMessage extends AsyncIterable<Uint8Array> {
    readonly method: string;
    readonly url: string;
    readonly statusCode?: number;
    readonly headers: Headers;
    readonly complete: boolean;
    readonly socket: { destroy(): void; resetAndDestroy(): void };
  }

  export interface ClientRequest {
    on(event: "error", hear: (error: Error) => void): void;
    on(event: "close", hear: () => void): void;
    on(event: "socket", hear: (socket: { unref(): void }) => void): void;
    end(body?: Uint8Array): void;
    destroy(error?: Error): void;
  }

  export interface RequestOptions {
    readonly method: string;
    readonly agent: Agent | false;
    readonly headers: Readonly<Record<string, string>>;
  }

  export function request(url: string, options: RequestOptions, hear: (answer: IncomingMessage) => void): ClientRequest;

  export interface ServerResponse {
    writeHead(status: number, headers?: Readonly<Record<string, string | number>>): void;
    write(text: string): void;
    end(text?: string): void;
  }

  export interface Server {
    listen(port: number, host: string, then: () => void): void;
    address(): { readonly port: number };
    close(): void;
    closeAllConnections(): void;
  }

  export function createServer(answer: (asked: IncomingMessage, answer: ServerResponse) => void): Server;
}

declare module "node:net" {
  export interface Socket {
    on(event: "data", hear: (part: Uint8Array) => void): void;
    on(event: "error", hear: (error: Error) => void): void;
    write(bytes: Uint8Array | string): void;
    end(bytes?: Uint8Array | string): void;
    destroy(): void;
  }

  export interface Listener {
    listen(port: number, host: string, then: () => void): void;
    address(): { readonly port: number };
    close(): void;
  }

  export function createServer(hear: (socket: Socket) => void): Listener;
}

declare module "node:https" {
  export { Agent, request } from "node:http";
}

declare module "node:os" {
  export function hostname(): string;
  export function homedir(): string;
  export function tmpdir(): string;
}

declare module "node:child_process" {
  interface Heard {
    on(event: "data", hear: (part: { toString(): string }) => void): void;
  }

  export interface ChildProcess {
    readonly stdout: Heard;
    readonly stderr: Heard;
    on(event: "close", hear: (code: number | null, signal: string | null) => void): void;
    kill(signal: string): void;
  }

  export function spawn(command: string, args: readonly string[]): ChildProcess;

  export function spawnSync(
    command: string,
    args: readonly string[],
    options?: { input?: string; encoding: "utf8"; env?: Record<string, string | undefined> },
  ): { readonly status: number | null; readonly stdout: string; readonly stderr: string };
}

declare function setTimeout(then: (value?: never) => void, millis: number): Timer;
declare function clearTimeout(timer: Timer): void;
declare function setImmediate(then: () => void): void;

interface Timer {
  unref(): void;
}

type Spent = { user: number; system: number };

declare const process: {
  readonly pid: number;
  cpuUsage(since?: Spent): Spent;
  kill(pid: number, signal: number | string): void;
  on(event: "beforeExit" | "exit", then: () => void): void;
  off(event: "beforeExit" | "exit", then: () => void): void;
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
  readonly protocol: string;
  readonly hostname: string;
  readonly username: string;
  readonly password: string;
}

declare class TextEncoder {
  encode(text: string): Uint8Array;
}

declare class TextDecoder {
  constructor(encoding?: string, options?: { ignoreBOM?: boolean; fatal?: boolean });
  decode(bytes: Uint8Array, options?: { stream?: boolean }): string;
}

declare const performance: {
  now(): number;
};

declare const crypto: {
  randomUUID(): string;
};
