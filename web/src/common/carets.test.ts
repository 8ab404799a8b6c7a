import { expect, test } from "vitest";
import { pointed } from "./carets";

const MESSAGE = 'error: unknown call `edges`\n  v("é").edges("run")\n         ^^^^^\n  expected one of: e, ea';

test("the place under the marks is one of the text, counted in bytes", () => {
  expect(pointed(MESSAGE, 'v("é").edges("run")')).toEqual({ byte: 8, length: 5, line: 1, column: 8 });
  expect(pointed(MESSAGE, '# first\n    v("é").edges("run")')).toEqual({ byte: 20, length: 5, line: 2, column: 12 });
});

test("without marks, or of another text, there is no place", () => {
  expect(pointed("the database is busy", "v()")).toBeNull();
  expect(pointed(MESSAGE, "v()")).toBeNull();
});
