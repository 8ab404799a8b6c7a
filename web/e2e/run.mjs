// Drives the console in a real browser against real servers. `node e2e/run.mjs [WORD…]` runs the tests whose names hold a word.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { launch, Window } from "./browser.mjs";
import { big, darshan, lab, tree } from "./lab.mjs";
import { esker, Server, stop, Tier } from "./server.mjs";
import { tests } from "./tests.mjs";

const words = process.argv.slice(2);
const chosen = tests.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
const folder = await mkdtemp(join(tmpdir(), "esker-console-"));
const browser = await launch();
const failed = [];

/** What a database is made of, by its name; each is made when a test first asks for it. */
const MADE = {
  lab: async (at) => {
    await darshan(at);
    await lab(at, folder);
  },
  empty: (at) => esker("init", at),
  big: (at) => big(at, folder),
  // The test of it ends this server.
  mortal: async (at) => {
    await esker("init", at);
    await esker("put", at, "file:/first.txt", "size=5");
  },
  // Opens the pages itself, by a page that leads to a link with a ticket, because the browser's user does not count.
  opened: async (at) => {
    await MADE.mortal(at);
    await writeFile(`${at}.toml`, '[access]\nloopback = "off"\n');
    return ["--open", "--config", `${at}.toml`];
  },
  sites: async (at) => {
    await esker("init", at);
    const tier = await new Tier(join(folder, "tier")).start();
    const far = pathToFileURL(join(folder, "project")).href;
    await tree(join(folder, "project"));
    // Asked twice: once the tier fetches, once it knows.
    for (const below of ["/ocean", "/ocean/raw", "/ocean/raw", "/atmosphere"])
      await esker("ls", "-l", far + below, "--via", tier.url);
    await writeFile(`${at}.toml`, `sites = ["${tier.url}", "http://127.0.0.1:9"]\n`);
    return ["--config", `${at}.toml`];
  },
};
const servers = new Map();

async function serverOf(name) {
  if (!servers.has(name)) {
    const at = join(folder, `${name}.esker`);
    const begun = Date.now();
    const options = await MADE[name](at);
    servers.set(name, await new Server(at, Array.isArray(options) ? options : []).start());
    console.log(`  ${name}: made in ${((Date.now() - begun) / 1000).toFixed(1)} s, served at ${servers.get(name).url}`);
  }
  return servers.get(name);
}

try {
  for (const { name, on, test, options } of chosen) {
    const server = await serverOf(on);
    const begun = Date.now();
    const window = await Window.open(browser, server, options);
    try {
      await test(window);
      await window.close();
      console.log(`ok   ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    } catch (e) {
      failed.push(name);
      console.log(`FAIL ${name}\n${(e.stack ?? String(e)).replace(/^/gm, "     ")}`);
      for (const mistake of window.mistakes) console.log(`     console: ${mistake}`);
      await window.shot(`failed-${name.replace(/\W+/g, "-")}`).catch(() => {});
      await window.page
        .context()
        .close()
        .catch(() => {});
    }
  }
} finally {
  await browser.close();
  await stop();
  if (process.env.ESKER_KEEP) console.log(`kept: ${folder}`);
  else await rm(folder, { recursive: true, force: true });
}
console.log(`${chosen.length - failed.length} of ${chosen.length} tests passed`);
if (failed.length > 0) {
  console.log(`failed: ${failed.join(", ")}`);
  process.exitCode = 1;
}
