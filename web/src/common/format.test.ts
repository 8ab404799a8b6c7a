// Formats of numbers, times and names.
import { expect, test } from "vitest";
import { byteToUnit, unitToByte } from "./bytes";
import { ago, bytes, lastPart, middle, millis, seconds, short } from "./format";

test("bytes and counts", () => {
  expect(bytes(1023)).toBe("1023 B");
  expect(bytes(1024)).toBe("1.0 KiB");
  expect(bytes(1048575)).toBe("1.0 MiB");
  expect(short(999)).toBe("999");
  expect(short(12_345)).toBe("12.3k");
  expect(short(345_000_000)).toBe("345M");
});

test("times", () => {
  expect(seconds(0.25)).toBe("250 ms");
  expect(seconds(200)).toBe("3 min 20 s");
  expect(seconds(90_000)).toBe("1 d 1 h");
  const at = "2026-03-01T00:00:00.000Z~77";
  expect(millis(at)).toBe(Date.UTC(2026, 2, 1));
  expect(ago(at, millis(at) + 90_000)).toBe("1 min ago");
  expect(ago(null)).toBe("");
});

test("names", () => {
  expect(lastPart("/a/b.nc")).toBe("b.nc");
  expect(lastPart("/")).toBe("/");
  const long = middle("a_very_long_name_of_a_file_0042.nc", 20);
  expect(long).toHaveLength(20);
  expect(long.endsWith("_0042.nc")).toBe(true);
});

test("bytes of UTF-8 and units of UTF-16", () => {
  const text = "aü€😀z";
  for (let unit = 0; unit <= text.length; unit++) {
    const within = unit > 0 && /[\ud800-\udbff]/.test(text[unit - 1] ?? "");
    if (!within) expect(byteToUnit(text, unitToByte(text, unit))).toBe(unit);
  }
  expect(unitToByte(text, text.length)).toBe(11);
});
