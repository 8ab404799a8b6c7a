// All tests, in the order in which they run.
import { tests as copied } from "./tests/copied.mjs";
import { tests as errors } from "./tests/errors.mjs";
import { tests as graph } from "./tests/graph.mjs";
import { tests as house } from "./tests/house.mjs";
import { tests as queries } from "./tests/queries.mjs";
import { tests as servers } from "./tests/servers.mjs";
import { tests as tables } from "./tests/tables.mjs";

export const tests = [...house, ...tables, ...graph, ...queries, ...servers, ...copied, ...errors];
