// What was run before in an editor, the latest first; kept by the browser.
const MOST = 50;

export function recall(name: string): string[] {
  try {
    const all: unknown = JSON.parse(window.localStorage.getItem(`esker.past.${name}`) ?? "[]");
    return Array.isArray(all) ? all.filter((t): t is string => typeof t === "string") : [];
  } catch {
    return [];
  }
}

export function remember(name: string, text: string) {
  if (text.trim() === "") return;
  const all = [text, ...recall(name).filter((t) => t !== text)].slice(0, MOST);
  try {
    window.localStorage.setItem(`esker.past.${name}`, JSON.stringify(all));
  } catch {
    // A browser that keeps nothing: the past is only what is in the URL.
  }
}
