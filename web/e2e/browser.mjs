// A real browser: Debian's Chromium, watched for requests to other hosts, for mistakes in its console, and for what axe finds.
import { strict as assert } from "node:assert";
import { accessSync, constants, existsSync, mkdirSync, statSync } from "node:fs";
import { delimiter, join, normalize, resolve } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import { chromium } from "playwright-core";

const SHOTS = resolve(process.env.ESKER_SHOTS ?? join(import.meta.dirname, "../../target/console-shots"));
export const WAIT = 600_000;
/** A name of this machine that servers do not take for it, as a page elsewhere might give it. */
export const STRANGE = "elsewhere.example";

function program() {
  if (process.env.ESKER_CHROMIUM) return process.env.ESKER_CHROMIUM;
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    for (const folder of (process.env.PATH ?? "").split(delimiter)) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch {
        // Not in this folder.
      }
    }
  }
  throw new Error("there is no chromium on the PATH: scripts/setup.sh installs it; or set ESKER_CHROMIUM");
}

export async function launch() {
  mkdirSync(SHOTS, { recursive: true });
  // Without a sandbox, because tests may run as root; without the services that ask Google on their own.
  return chromium.launch({
    executablePath: program(),
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--force-color-profile=srgb",
      `--host-resolver-rules=MAP ${STRANGE} 127.0.0.1`,
    ],
  });
}

/** Pages from a folder, in place of those that were compiled into the program: while pages are written, without compiling. */
async function substitute(context, server, folder) {
  await context.route(`${server.url}/**`, async (route) => {
    const { pathname } = new URL(route.request().url());
    const file = normalize(join(folder, pathname === "/" ? "index.html" : pathname));
    if (!file.startsWith(folder) || !existsSync(file) || !statSync(file).isFile()) return route.continue();
    const headers = pathname === "/" ? { "content-security-policy": CSP } : {};
    return route.fulfill({ path: file, headers });
  });
}

// What the server sends with its page.
const CSP =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/** A window on a server. `close` fails if anything was asked of another host, or a script failed. */
export class Window {
  constructor(page, server) {
    this.page = page;
    this.server = server;
    this.origin = server.url;
    this.foreign = [];
    this.mistakes = [];
    this.expected = [];
    page.setDefaultTimeout(WAIT);
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!["data:", "blob:"].includes(url.protocol) && url.origin !== this.origin) this.foreign.push(request.url());
    });
    page.on("websocket", (socket) => this.foreign.push(socket.url()));
    page.on("pageerror", (error) => this.mistakes.push(`${error.name}: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error") this.mistakes.push(`${message.text()} (${message.location().url ?? ""})`);
    });
  }

  static async open(browser, server, options = {}) {
    const context = await browser.newContext({
      viewport: { width: 1280, height: 720 },
      colorScheme: "light",
      reducedMotion: "reduce",
      locale: "en-GB",
      acceptDownloads: true,
      ...options,
    });
    if (process.env.ESKER_CONSOLE_DIST) await substitute(context, server, resolve(process.env.ESKER_CONSOLE_DIST));
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    return new Window(await context.newPage(), server);
  }

  /** Goes to a page by its address behind the `#`, and waits until it has its answers. */
  async go(hash) {
    const to = `${this.origin}/${hash ? `#/${hash}` : ""}`;
    if (this.page.url() === to) await this.page.reload();
    else await this.page.goto(to);
    await this.settled();
  }

  async settled() {
    await this.page.locator("main h1, main h2, main .empty, main .note, main [role=alert]").first().waitFor();
    await this.page.waitForFunction(() => !document.querySelector('main [role="status"][aria-label="Loading"]'));
  }

  /** `text` comes to be shown in the page. */
  async shows(text, where = "main") {
    const found = this.page.locator(where).getByText(text).filter({ visible: true }).first();
    try {
      await found.waitFor();
    } catch {
      throw new Error(`${this.page.url()} does not show ${text}; it shows:\n${await this.text(where)}`);
    }
  }

  async text(where = "main") {
    return (await this.page.locator(where).allInnerTexts()).join("\n");
  }

  async shot(name) {
    // One frame later, so that what was just drawn is on it.
    await this.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    await this.page.screenshot({ path: join(SHOTS, `${name}.png`) });
  }

  /** No violation of WCAG 2.2 A and AA, nor of axe's good practice; or of these rules only. */
  async accessible(what, rules = null) {
    const axe = new AxeBuilder({ page: this.page });
    const found = await (rules ? axe.withRules(rules) : axe).analyze();
    const lines = found.violations.map(
      (v) => `${v.id} (${v.impact}): ${v.help}\n${v.nodes.map((n) => `    ${n.html}\n      ${n.failureSummary}`).join("\n")}`,
    );
    assert.equal(lines.length, 0, `axe on ${what}:\n${lines.join("\n")}`);
  }

  /** A picture and axe's word on it, in light and in dark. */
  async seen(name) {
    for (const colours of ["light", "dark"]) {
      await this.page.emulateMedia({ colorScheme: colours });
      await this.shot(`${name}-${colours}`);
      // What is not about colours is as it was in the light.
      await this.accessible(`${name}, ${colours}`, colours === "dark" ? ["color-contrast", "link-in-text-block"] : null);
    }
    await this.page.emulateMedia({ colorScheme: "light" });
  }

  /** From now on messages that this fits are no mistakes: the test causes them. */
  expect(pattern) {
    this.expected.push(pattern);
  }

  async close() {
    const mistakes = this.mistakes.filter((m) => !this.expected.some((pattern) => pattern.test(m)));
    await this.page.context().close();
    assert.deepEqual(this.foreign, [], "requests went to other hosts");
    assert.deepEqual(mistakes, [], "the browser's console has mistakes");
  }
}
