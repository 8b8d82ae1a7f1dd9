/**
 * Emitters without dependencies, to the byte those of the Python side.
 *
 * What JavaScript cannot tell apart: 65 and 65.0 are one number, so a number in a key that no
 * contract declares is written 65; and keys that look like integers come first among their like.
 */

export { TOKEN_ENV, TOKEN_FILE_ENV } from "./emit/connection.js";
export {
  type Contract,
  type Field,
  type Fields,
  faultsOf,
  lineOf,
  nowTs,
  shaped,
} from "./emit/contract.js";
export * from "./emit/envelopes.js";
export * from "./emit/environ.js";
export * from "./emit/file.js";
export { type HttpOptions, HttpSink, SPOOL_ENV, URL_ENV } from "./emit/http.js";
export { type Body, type Fault, Invalid } from "./emit/json.js";
export * from "./emit/kahn-agent.js";
export * from "./emit/kahn-ci.js";
export { type Base, type Options, Run } from "./emit/run.js";
