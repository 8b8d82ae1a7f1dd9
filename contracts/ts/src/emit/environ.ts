/** How a run is handed on to child processes, so that they link themselves. */

export const RUN_ENV = "TRACKLOG_RUN_ID";
export const PARENT_ENV = "TRACKLOG_PARENT_RUN_ID";
export const TRACE_ENV = "TRACEPARENT";

export type Environ = Readonly<Record<string, string | undefined>>;

/** What a child process needs in its environment to name a run as its parent. */
export function childEnv(
  parent: string,
  traceparent: string | undefined,
  run: string = crypto.randomUUID(),
): Record<string, string> {
  const trace = traceparent ? { [TRACE_ENV]: traceparent } : {};
  return { [RUN_ENV]: run, [PARENT_ENV]: parent, ...trace };
}
