// Tests the buttons of the documentation site: they copy commands without prompts and output. `node e2e/docs-site.mjs FOLDER`, where FOLDER has the site.
import { strict as assert } from "node:assert";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize, resolve } from "node:path";
import { launch, TIMEOUT_MS } from "./browser.mjs";

const site = resolve(process.argv[2]);
const TYPES = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
  ".png": "image/png",
};

// Browsers permit the clipboard only to pages of a server.
const server = createServer(async (request, response) => {
  const path = normalize(join(site, new URL(request.url, "http://localhost").pathname));
  try {
    const content = await readFile(path);
    response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
    response.end(content);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const browser = await launch();
try {
  const context = await browser.newContext();
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  const open = async (name) => {
    await page.goto(`http://127.0.0.1:${server.address().port}/${name}.html`);
    await page.locator("button.copybtn").first().waitFor({ state: "attached" });
  };
  /** Clicks the first button in an element, and returns the clipboard once it has changed. */
  const copied = async (element) => {
    await page.evaluate(() => navigator.clipboard.writeText("before"));
    await element.locator("button.copybtn").first().click({ force: true });
    await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "before");
    return page.evaluate(() => navigator.clipboard.readText());
  };

  await open("book/prov");
  const session = page.locator(".highlight-console").first();
  const shown = await session.textContent();
  const lines = shown.split("\n").filter((line) => line.startsWith("$ "));
  assert.ok(lines.length > 1 && shown.includes("└─"), "the page has a session with output");
  assert.equal(await copied(session), lines.map((line) => line.slice(2)).join("\n"), "the button copies the commands alone");

  await open("book/tutorial");
  const inputs = await page.locator(".highlight-sh").count();
  const outputs = await page.locator(".esker-output").count();
  assert.ok(inputs > 5 && outputs > 5, `the tutorial has ${inputs} inputs and ${outputs} outputs`);
  assert.equal(await page.locator(".highlight-sh button.copybtn").count(), inputs, "each input has a button");
  assert.equal(await page.locator(".esker-output button.copybtn").count(), 0, "no output has a button");
  const script = page.locator(".highlight-sh").nth(1);
  assert.equal(await copied(script), (await script.locator("pre").textContent()).trimEnd(), "the button copies a script whole");
  console.log(
    `docs: buttons copy ${lines.length} commands of a session without its output; ${inputs} inputs have buttons, ${outputs} outputs none`,
  );
} finally {
  await browser.close();
  server.close();
}
