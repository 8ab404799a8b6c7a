// All tests, in the order in which they run.
import { tests as app } from "./tests/app.mjs";
import { tests as copyAs } from "./tests/copy-as.mjs";
import { tests as errors } from "./tests/errors.mjs";
import { tests as graph } from "./tests/graph.mjs";
import { tests as queries } from "./tests/queries.mjs";
import { tests as servers } from "./tests/servers.mjs";
import { tests as tables } from "./tests/tables.mjs";

/** Tests with a name, a database and a function of a window. */
export const tests = [...app, ...tables, ...graph, ...queries, ...servers, ...copyAs, ...errors];
