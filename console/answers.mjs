/** Writes the types of the collector's answers: its OpenAPI document on stdin, TypeScript on stdout. */

import { json } from "node:stream/consumers";
import openapiTS, { astToString } from "openapi-typescript";

const document = await json(process.stdin);

// Errors have one shape on every path; what is not JSON has no type.
for (const [path, operations] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(operations)) {
    const { description, content } = operation.responses["200"];
    const answer = content["application/json"];
    if (answer) operation.responses = { 200: { description, content: { "application/json": answer } } };
    else delete operations[method];
  }
  if (!Object.keys(operations).length) delete document.paths[path];
}

const nodes = await openapiTS(document, { immutable: true, rootTypes: true, rootTypesNoSchemaPrefix: true });
process.stdout.write(astToString(nodes));
