// Conversion of positions in a text: the server counts bytes of UTF-8, the editor code units of UTF-16.

const encoder = new TextEncoder();

/** Converts a position in UTF-16 code units to bytes of UTF-8. */
export function unitToByte(text: string, unit: number): number {
  return encoder.encode(text.slice(0, unit)).length;
}

/** Converts a position in bytes of UTF-8 to UTF-16 code units. */
export function byteToUnit(text: string, byte: number): number {
  let bytes = 0;
  for (let unit = 0; unit < text.length; ) {
    if (bytes >= byte) return unit;
    const code = text.codePointAt(unit) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    unit += code >= 0x10000 ? 2 : 1;
  }
  return text.length;
}
