// Texts that were run in an editor, newest first, in the local storage of this browser.
const TEXTS_MAX = 50;

/** Returns the texts that were run in an editor, newest first. */
export function recentTexts(name: string): string[] {
  try {
    const texts: unknown = JSON.parse(window.localStorage.getItem(`esker.past.${name}`) ?? "[]");
    return Array.isArray(texts) ? texts.filter((t): t is string => typeof t === "string") : [];
  } catch {
    return [];
  }
}

/** Puts a text first, and removes an earlier equal one. */
export function addRecent(name: string, text: string) {
  if (text.trim() === "") return;
  const texts = [text, ...recentTexts(name).filter((t) => t !== text)].slice(0, TEXTS_MAX);
  try {
    window.localStorage.setItem(`esker.past.${name}`, JSON.stringify(texts));
  } catch {
    // The browser permits no local storage: only the URL has the text.
  }
}
