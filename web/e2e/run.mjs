// Tests the console in a browser with real servers. `node e2e/run.mjs [WORD…]` runs the tests whose names contain one of the words.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { launch, Window } from "./browser.mjs";
import { big, darshan, lab, tree } from "./lab.mjs";
import { esker, Server, stop, Tier } from "./server.mjs";
import { tests } from "./tests.mjs";

const filters = process.argv.slice(2);
const chosen = tests.filter(({ name }) => filters.length === 0 || filters.some((text) => name.includes(text)));
const folder = await mkdtemp(join(tmpdir(), "esker-console-"));
const browser = await launch();
const failed = [];

/** Functions that create the databases by name, and may return options of `esker serve`. The first test of a database creates it. */
const DATABASES = {
  lab: async (path) => {
    await darshan(path);
    await lab(path, folder);
  },
  empty: (path) => esker("init", path),
  big: (path) => big(path, folder),
  // The test ends this server and starts it again.
  restarted: async (path) => {
    await esker("init", path);
    await esker("put", path, "file:/first.txt", "size=5");
  },
  // The server writes a page with a link that has a ticket, because the configuration does not accept the browser's user.
  link: async (path) => {
    await DATABASES.restarted(path);
    await writeFile(`${path}.toml`, '[access]\nloopback = "off"\n');
    return ["--open", "--config", `${path}.toml`];
  },
  sites: async (path) => {
    await esker("init", path);
    const tier = await new Tier(join(folder, "tier")).start();
    const origin = pathToFileURL(join(folder, "project")).href;
    await tree(join(folder, "project"));
    // The second listing of /ocean/raw is a hit.
    for (const directory of ["/ocean", "/ocean/raw", "/ocean/raw", "/atmosphere"])
      await esker("ls", "-l", origin + directory, "--via", tier.url);
    await writeFile(`${path}.toml`, `sites = ["${tier.url}", "http://127.0.0.1:9"]\n`);
    return ["--config", `${path}.toml`];
  },
};
const servers = new Map();

async function serverOf(name) {
  if (!servers.has(name)) {
    const path = join(folder, `${name}.esker`);
    const start = Date.now();
    const options = await DATABASES[name](path);
    servers.set(name, await new Server(path, Array.isArray(options) ? options : []).start());
    console.log(`  ${name}: created in ${((Date.now() - start) / 1000).toFixed(1)} s, served at ${servers.get(name).url}`);
  }
  return servers.get(name);
}

try {
  for (const { name, database, test, options } of chosen) {
    const server = await serverOf(database);
    const start = Date.now();
    const window = await Window.open(browser, server, options);
    try {
      await test(window);
      await window.close();
      console.log(`ok   ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    } catch (e) {
      failed.push(name);
      console.log(`FAIL ${name}\n${(e.stack ?? String(e)).replace(/^/gm, "     ")}`);
      for (const error of window.errors) console.log(`     console: ${error}`);
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
