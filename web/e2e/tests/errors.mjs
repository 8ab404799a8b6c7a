// When something is wrong: no server, no data, too much of it.
import { strict as assert } from "node:assert";
import { BIG } from "../lab.mjs";
import { esker } from "../server.mjs";

const PAGES = ["", "search", "lineage", "around", "runs", "space", "tags", "travel", "sparql", "cluster", "sites"];

export const tests = [
  {
    name: "an empty database: every page says what to do next",
    on: "empty",
    async test(window) {
      for (const hash of PAGES) {
        await window.go(hash);
        assert.equal(await window.page.getByText("This page failed").count(), 0, `#/${hash} fails`);
        assert.ok((await window.text()).trim().length > 20, `#/${hash} says nothing`);
        await window.seen(`empty-${hash || "home"}`);
      }
    },
  },
  {
    name: "what an empty database proposes to type is there to be typed",
    on: "empty",
    async test(window) {
      const wrong = [];
      for (const hash of PAGES) {
        await window.go(hash);
        for (const text of await window.page.locator("main .empty pre").allInnerTexts()) {
          for (const line of text.split("\n").filter((l) => /^esker /.test(l))) {
            // Its help is there, and shows every option that is proposed.
            const words = line.replace(/#.*/, "").trim().split(/\s+/).slice(1);
            const names = words.slice(
              0,
              words.findIndex((w) => !/^[a-z]+$/.test(w)),
            );
            const help = await esker(...names, "--help").catch((e) => e.message);
            const own = words.slice(0, words.includes("--") ? words.indexOf("--") : words.length);
            for (const option of own.filter((w) => /^--./.test(w)))
              if (!help.includes(option)) wrong.push(`#/${hash}: ${line}: no ${option}`);
            if (!/^Usage: /m.test(help) || /^error/m.test(help)) wrong.push(`#/${hash}: ${line}: ${help.slice(0, 200)}`);
          }
        }
      }
      assert.deepEqual(wrong, []);
    },
  },
  {
    name: "a database that was empty shows what comes",
    on: "empty",
    async test(window) {
      await window.go("");
      await window.shows("This database is empty");
      await esker("put", window.server.folder, "file:/first.txt", "size=5");
      await window.page.getByRole("region", { name: "Counts" }).waitFor();
    },
  },
  {
    name: "a million answers scroll",
    on: "big",
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
      assert.ok((await table.getByRole("row").count()) < 200, "only rows that are seen are in the page");
      await window.seen("million");
      await page.keyboard.press("Home");
      await table.locator('[aria-rowindex="2"]').waitFor();
      // Somewhere between, by the wheel.
      await rows.hover();
      await page.mouse.wheel(0, 30_000);
      await table.locator('[aria-rowindex="1000"]').waitFor();
    },
  },
  {
    name: "the server is gone, and comes back",
    on: "mortal",
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
      // What was there stays; a page that was not there yet says why.
      await page.getByRole("region", { name: "Counts" }).waitFor();
      await window.seen("gone");
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Cluster" }).click();
      // Either the page has come already, or it cannot now; both say so.
      await window.shows(/It is looked for|once the server is back/);
      await window.seen("gone-other-page");
      await server.start();
      await banner.waitFor({ state: "hidden" });
      await window.shows("one server that stands alone");
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Home" }).click();
      await page.getByRole("region", { name: "Counts" }).waitFor();
      await window.shot("gone-and-back");
    },
  },
];
