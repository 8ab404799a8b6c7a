// Filters made of clicked conditions, and typed tags.
import { expect, test } from "vitest";
import { and, between, equals, tagsOf } from "./filter";

test("conditions are joined by AND, each once", () => {
  let filter = and("", equals("Conf", 1));
  filter = and(filter, equals("my note", "it's"));
  expect(filter).toBe("Conf = 1 AND \"my note\" = 'it''s'");
  expect(and(filter, equals("Conf", 1))).toBe(filter);
  expect(and("a = 1 OR b = 2", between("step", 1, 5))).toBe("(a = 1 OR b = 2) AND step BETWEEN 1 AND 5");
});

test("typed tags become numbers, truth values, lists and texts", () => {
  expect(tagsOf("a=1, b=spring, c, d=true, e=[1], f=007, g={}")).toEqual({
    a: 1,
    b: "spring",
    c: null,
    d: true,
    e: [1],
    f: "007",
    g: "{}",
  });
  expect(tagsOf(" , ")).toEqual({});
});
