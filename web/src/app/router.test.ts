// Addresses of pages and their parameters.
import { expect, test } from "vitest";
import { href, parse } from "./router";

test("parameters survive the conversion to an address and back", () => {
  const id = "file:/a b/ü%?&=#.nc";
  const open = "<file:/x\n>job:1";
  const { page, params } = parse(href("lineage", { id, open, up: 3, as_of: null, sel: "" }));
  expect(page).toBe("lineage");
  expect(params.get("id")).toBe(id);
  expect(params.get("open")).toBe(open);
  expect(params.get("up")).toBe("3");
  expect(params.has("as_of")).toBe(false);
  expect(params.has("sel")).toBe(false);
});

test("an empty address is the page home", () => {
  for (const hash of ["", "#", "#/"]) expect(parse(hash).page).toBe("home");
  expect(href("home")).toBe("#/");
});
