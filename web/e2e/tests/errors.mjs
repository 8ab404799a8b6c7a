// Empty databases, large results, and a server that stops.
import { strict as assert } from "node:assert";
import { BIG } from "../lab.mjs";
import { esker } from "../server.mjs";

const PAGES = ["", "search", "lineage", "neighbourhood", "runs", "space", "tags", "travel", "sparql", "cluster", "sites"];

export const tests = [
  {
    name: "an empty database: every page has instructions",
    database: "empty",
    async test(window) {
      for (const hash of PAGES) {
        await window.go(hash);
        assert.equal(await window.page.getByText("This page failed").count(), 0, `#/${hash} fails`);
        assert.ok((await window.text()).trim().length > 20, `#/${hash} has no text`);
        await window.inspect(`empty-${hash || "home"}`);
      }
    },
  },
  {
    name: "an empty database: the proposed commands and options exist",
    database: "empty",
    async test(window) {
      const failures = [];
      for (const hash of PAGES) {
        await window.go(hash);
        for (const text of await window.page.locator("main .empty pre").allInnerTexts()) {
          for (const line of text.split("\n").filter((l) => /^esker /.test(l))) {
            // The command's help has every proposed option.
            const args = line.replace(/#.*/, "").trim().split(/\s+/).slice(1);
            const names = args.slice(
              0,
              args.findIndex((w) => !/^[a-z]+$/.test(w)),
            );
            const help = await esker(...names, "--help").catch((e) => e.message);
            const own = args.slice(0, args.includes("--") ? args.indexOf("--") : args.length);
            for (const option of own.filter((w) => /^--./.test(w)))
              if (!help.includes(option)) failures.push(`#/${hash}: ${line}: no ${option}`);
            if (!/^Usage: /m.test(help) || /^error/m.test(help)) failures.push(`#/${hash}: ${line}: ${help.slice(0, 200)}`);
          }
        }
      }
      assert.deepEqual(failures, []);
    },
  },
  {
    name: "home of an empty database shows the first change",
    database: "empty",
    async test(window) {
      await window.go("");
      await window.shows("This database is empty");
      await esker("put", window.server.folder, "file:/first.txt", "size=5");
      await window.page.getByRole("region", { name: "Counts" }).waitFor();
    },
  },
  {
    name: "a million solutions scroll",
    database: "big",
    async test(window) {
      const { page } = window;
      const query = "SELECT ?a ?b WHERE { ?a <http://lab.example/depth> ?x . ?b <http://lab.example/depth> ?y } ORDER BY ?x ?y";
      await window.go(`sparql?q=${encodeURIComponent(query)}`);
      const table = page.getByRole("table", { name: "Solutions" });
      await table.waitFor();
      await window.shows(`${BIG.toLocaleString("en-GB")} solutions`);
      const rows = table.getByRole("rowgroup", { name: "Rows of Solutions" });
      const last = table.locator(`[aria-rowindex="${BIG + 1}"]`);
      await rows.focus();
      await page.keyboard.press("End");
      await last.waitFor();
      assert.match((await last.allInnerTexts()).join(), /sample\/999[\s\S]*sample\/999/);
      assert.ok((await table.getByRole("row").count()) < 200, "the page contains only visible rows");
      await window.inspect("million");
      await page.keyboard.press("Home");
      await table.locator('[aria-rowindex="2"]').waitFor();
      // The wheel scrolls to a row in between.
      await rows.hover();
      await page.mouse.wheel(0, 30_000);
      await table.locator('[aria-rowindex="1000"]').waitFor();
    },
  },
  {
    name: "the server stops and starts again",
    database: "restarted",
    async test(window) {
      const { page, server } = window;
      window.expect(
        /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|Failed to load resource/,
      );
      await window.go("");
      await page.getByRole("region", { name: "Counts" }).waitFor();
      await server.kill();
      const banner = page.getByRole("alert").filter({ hasText: "The server does not answer" }).first();
      await banner.waitFor();
      // The data of the page stays.
      await page.getByRole("region", { name: "Counts" }).waitFor();
      await window.inspect("server-stopped");
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Cluster" }).click();
      // The message depends on whether the script of the page was loaded before the server stopped.
      await window.shows(/until the server responds|once the server responds/);
      await window.inspect("server-stopped-other-page");
      await server.start();
      await banner.waitFor({ state: "hidden" });
      await window.shows("a single server");
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Home" }).click();
      await page.getByRole("region", { name: "Counts" }).waitFor();
      await window.shot("server-restarted");
    },
  },
];
