// Chromium for the tests. It records requests to other hosts and errors in the browser's console, and runs the checks of axe.
import { strict as assert } from "node:assert";
import { accessSync, constants, existsSync, mkdirSync, statSync } from "node:fs";
import { delimiter, join, normalize, resolve } from "node:path";
import { AxeBuilder } from "@axe-core/playwright";
import { chromium } from "playwright-core";

const SHOTS = resolve(process.env.ESKER_SHOTS ?? join(import.meta.dirname, "../../target/console-shots"));
/** Time limit of one step of a test, in milliseconds. */
export const TIMEOUT_MS = 600_000;
/** Host name that resolves to this machine, but that the origin check of servers refuses. */
export const OTHER_HOST = "other-host.example";

function program() {
  if (process.env.ESKER_CHROMIUM) return process.env.ESKER_CHROMIUM;
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    for (const folder of (process.env.PATH ?? "").split(delimiter)) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch {
        // This folder has no such program.
      }
    }
  }
  throw new Error("no chromium on the PATH: run scripts/setup.sh to install it, or set ESKER_CHROMIUM");
}

/** Starts the browser without a window. */
export async function launch() {
  mkdirSync(SHOTS, { recursive: true });
  // The sandbox is off because tests may run as root. Background networking is off because it sends requests to Google.
  return chromium.launch({
    executablePath: program(),
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--force-color-profile=srgb",
      `--host-resolver-rules=MAP ${OTHER_HOST} 127.0.0.1`,
    ],
  });
}

/** Serves pages from a folder in place of those compiled into the program, so that a change needs no compilation. */
async function substitute(context, server, folder) {
  await context.route(`${server.url}/**`, async (route) => {
    const { pathname } = new URL(route.request().url());
    const file = normalize(join(folder, pathname === "/" ? "index.html" : pathname));
    if (!file.startsWith(folder) || !existsSync(file) || !statSync(file).isFile()) return route.continue();
    const headers = pathname === "/" ? { "content-security-policy": CSP } : {};
    return route.fulfill({ path: file, headers });
  });
}

// The policy that the server sends with its page.
const CSP =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/** A browser window that shows a server's console. `close` fails if requests went to another host or the browser's console has errors. */
export class Window {
  constructor(page, server) {
    this.page = page;
    this.server = server;
    this.origin = server.url;
    this.otherRequests = [];
    this.errors = [];
    this.expectedErrors = [];
    page.setDefaultTimeout(TIMEOUT_MS);
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!["data:", "blob:"].includes(url.protocol) && url.origin !== this.origin) this.otherRequests.push(request.url());
    });
    page.on("websocket", (socket) => this.otherRequests.push(socket.url()));
    page.on("pageerror", (error) => this.errors.push(`${error.name}: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error") this.errors.push(`${message.text()} (${message.location().url ?? ""})`);
    });
  }

  /** Opens a window with its own cookies and storage; `options` are those of Playwright's context. */
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

  /** Opens a page by the part of its address after `#/`, and waits for its data. */
  async go(hash) {
    const url = `${this.origin}/${hash ? `#/${hash}` : ""}`;
    if (this.page.url() === url) await this.page.reload();
    else await this.page.goto(url);
    await this.settled();
  }

  /** Waits until the page has a heading or a message, and no request is in flight. */
  async settled() {
    await this.page.locator("main h1, main h2, main .empty, main .note, main [role=alert]").first().waitFor();
    await this.page.waitForFunction(() => !document.querySelector('main [role="status"][aria-label="Loading"]'));
  }

  /** Waits until the element `selector` shows a text. */
  async shows(text, selector = "main") {
    const match = this.page.locator(selector).getByText(text).filter({ visible: true }).first();
    try {
      await match.waitFor();
    } catch {
      throw new Error(`${this.page.url()} does not show ${text}; it shows:\n${await this.text(selector)}`);
    }
  }

  /** Returns the visible text of the element `selector`. */
  async text(selector = "main") {
    return (await this.page.locator(selector).allInnerTexts()).join("\n");
  }

  /** Saves a screenshot. */
  async shot(name) {
    // The second frame has everything that was drawn before the call.
    await this.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    await this.page.screenshot({ path: join(SHOTS, `${name}.png`) });
  }

  /** Fails if the page violates WCAG 2.2 A and AA or axe's best practices, or one of `rules`. `name` is for the message. */
  async accessible(name, rules = null) {
    const axe = new AxeBuilder({ page: this.page });
    const report = await (rules ? axe.withRules(rules) : axe).analyze();
    const violations = report.violations.map(
      (v) => `${v.id} (${v.impact}): ${v.help}\n${v.nodes.map((n) => `    ${n.html}\n      ${n.failureSummary}`).join("\n")}`,
    );
    assert.equal(violations.length, 0, `axe on ${name}:\n${violations.join("\n")}`);
  }

  /** Saves screenshots in light and dark colours, and checks the accessibility of both. */
  async inspect(name) {
    for (const colours of ["light", "dark"]) {
      await this.page.emulateMedia({ colorScheme: colours });
      await this.shot(`${name}-${colours}`);
      // Rules that do not concern colours have the same result in dark.
      await this.accessible(`${name}, ${colours}`, colours === "dark" ? ["color-contrast", "link-in-text-block"] : null);
    }
    await this.page.emulateMedia({ colorScheme: "light" });
  }

  /** Accepts errors that match the pattern, because the test causes them. */
  expect(pattern) {
    this.expectedErrors.push(pattern);
  }

  /** Closes the window; fails if it made requests to other hosts or has unexpected errors. */
  async close() {
    const errors = this.errors.filter((e) => !this.expectedErrors.some((pattern) => pattern.test(e)));
    await this.page.context().close();
    assert.deepEqual(this.otherRequests, [], "requests went to other hosts");
    assert.deepEqual(errors, [], "the browser's console has errors");
  }
}
