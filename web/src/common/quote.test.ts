// Quoting of texts for shells, filters, traversals and CSV.
import { expect, test } from "vitest";
import { csv, filterName, filterValue, shell, travel } from "./quote";
import { compare, toCsv } from "./Table";

test("words of a shell", () => {
  expect(shell("file:/a/b.nc")).toBe("file:/a/b.nc");
  expect(shell("a b")).toBe("'a b'");
  expect(shell("it's $HOME")).toBe("'it'\\''s $HOME'");
  expect(shell("")).toBe("''");
});

test("names and values of filters", () => {
  expect(filterName("step")).toBe("step");
  expect(filterName("my tag")).toBe('"my tag"');
  expect(filterName("in")).toBe('"in"');
  expect(filterName('say "x"')).toBe('"say ""x"""');
  expect(filterValue("it's")).toBe("'it''s'");
  expect(filterValue(7)).toBe("7");
  expect(filterValue([1, "a"])).toBe("[1, 'a']");
});

test("strings of traversals", () => {
  expect(travel('a"b\\c')).toBe('"a\\"b\\\\c"');
});

test("CSV", () => {
  expect(csv('a "b", c')).toBe('"a ""b"", c"');
  const columns = [{ name: "x,y", value: (row: number) => row }];
  expect(toCsv(columns, [1, 2])).toBe('"x,y"\n1\n2\n');
});

test("numbers sort by value, missing values last", () => {
  expect([10, null, 9, "a"].sort(compare)).toEqual([9, 10, "a", null].sort(compare));
  expect([10, 9, 100].sort(compare)).toEqual([9, 10, 100]);
  expect(compare(null, 1)).toBe(1);
});
