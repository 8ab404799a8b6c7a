// The pages Travel and SPARQL: completion, results in all views, marked errors, updates.
import { strict as assert } from "node:assert";
import { esker } from "../server.mjs";

const editor = (page, name) => page.getByRole("textbox", { name });

export const tests = [
  {
    name: "travel: completion, and the result as table, graph, text and profile",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("travel");
      await window.inspect("travel-nothing");
      const code = editor(page, "Traversal");
      await code.click();
      await page.keyboard.type('v("user:1002").e("ru');
      const completions = page.getByRole("listbox");
      await completions.getByText("run", { exact: true }).first().waitFor();
      await window.inspect("travel-completion");
      await page.keyboard.press("Escape");
      await page.keyboard.press("Control+a");
      const chain = 'v("user:1002").e("run").v().e("write").v()';
      await page.keyboard.insertText(chain);
      await page.keyboard.press("Control+Enter");
      await page.waitForURL(/#\/travel\?q=/);
      await page.getByRole("table", { name: "Vertices of set 1" }).getByText("figure-1.png").waitFor();
      const result = JSON.parse(await esker("travel", server.folder, chain, "--format", "json"));
      const reached = (result.vertices ?? result.sets.at(-1).vertices).length;
      await window.shows(new RegExp(`^${reached} rows?`));
      await window.inspect("travel-table");
      for (const view of ["graph", "text", "profile"]) {
        await page.getByRole("tab", { name: view }).click();
        await page.waitForURL(new RegExp(`view=${view}`));
        if (view === "text") await window.shows("file:/scratch/spring/figure-1.png");
        if (view === "profile") await window.shows(/Edges read/);
        await window.inspect(`travel-${view}`);
      }
    },
  },
  {
    name: "travel: the position of an error, and earlier texts",
    database: "lab",
    async test(window) {
      const { page } = window;
      window.expect(/400/);
      await window.go(`travel?q=${encodeURIComponent('v("user:1001").e("run")')}`);
      await window.go(`travel?q=${encodeURIComponent('v("user:1001").edges("run")')}`);
      await page.getByRole("alert").filter({ hasText: "Refused" }).waitFor();
      await page.locator(".cm-lintRange-error").waitFor();
      await window.inspect("travel-refused");
      // Ctrl+Up returns to the first of two traversals.
      const code = editor(page, "Traversal");
      for (const chain of ['v("user:1001")', 'v("user:1002")']) {
        await code.click();
        await page.keyboard.press("Control+a");
        await page.keyboard.insertText(chain);
        await page.keyboard.press("Control+Enter");
        await page.waitForURL((url) => new URLSearchParams(url.hash.slice(url.hash.indexOf("?"))).get("q") === chain);
        // The table of the previous traversal may still be visible.
        const table = page.getByRole("table", { name: "Vertices of set 1" });
        await table.filter({ hasText: chain.slice(3, -2) }).waitFor();
      }
      await page.keyboard.press("Control+ArrowUp");
      await page.keyboard.press("Control+ArrowUp");
      await code.filter({ hasText: "user:1001" }).waitFor();
    },
  },
  {
    name: "travel: paths as a graph",
    database: "lab",
    async test(window) {
      await window.go(
        `travel?view=graph&q=${encodeURIComponent('v("file:/scratch/spring/figure-1.png").e("wasWrittenBy").v().e("read").v().return_fp()')}`,
      );
      await window.page.locator("main canvas").first().waitFor();
      assert.equal(await window.page.getByText("returns no edges").count(), 0);
      await window.inspect("travel-paths");
    },
  },
  {
    name: "SPARQL: the result of a query as table and graph",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("sparql");
      await window.inspect("sparql-nothing");
      const code = editor(page, "Query");
      await code.click();
      await page.keyboard.press("Control+a");
      await page.keyboard.insertText(
        'PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>\nSELECT ?s ?label WHERE { ?s rdfs:label ?label FILTER(LANG(?label) = "en") } ORDER BY ?label',
      );
      await page.keyboard.press("Control+Enter");
      const table = page.getByRole("table", { name: "Solutions" });
      await table.getByText("Buoy 7").waitFor();
      await window.shows(/2 solutions/);
      await window.inspect("sparql-table");
      await window.go(`sparql?view=graph&q=${encodeURIComponent("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }")}`);
      await page.locator("main canvas").first().waitFor();
      await window.inspect("sparql-graph");
      await window.go(`sparql?q=${encodeURIComponent("ASK { <http://lab.example/ada> ?p ?o }")}`);
      await window.shows(/Yes: the pattern has a solution/);
    },
  },
  {
    name: "SPARQL: the position of an error",
    database: "lab",
    async test(window) {
      window.expect(/400/);
      await window.go(`sparql?q=${encodeURIComponent("SELECT ?s WHERE {\n  ?s ?p\n}")}`);
      await window.page.getByRole("alert").filter({ hasText: "Refused" }).waitFor();
      await window.page.locator(".cm-lintRange-error, .cm-lintPoint-error").first().waitFor();
      await window.inspect("sparql-refused");
    },
  },
  {
    name: "SPARQL: an update needs a confirmation",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("sparql");
      await editor(page, "Query").click();
      await page.keyboard.press("Control+a");
      await page.keyboard.insertText("INSERT DATA { <http://lab.example/buoy-11> <http://lab.example/depth> 7 }");
      await page.keyboard.press("Control+Enter");
      await page.getByRole("alertdialog").waitFor();
      await window.inspect("sparql-update");
      const depth = () =>
        esker(
          "sparql",
          server.folder,
          "SELECT ?d WHERE { <http://lab.example/buoy-11> <http://lab.example/depth> ?d }",
          "--format",
          "csv",
        );
      assert.doesNotMatch(await depth(), /7/, "no update before the confirmation");
      await page.getByRole("button", { name: "Run the update" }).click();
      await window.shows(/1 triple .*added/);
      assert.match(await depth(), /7/);
    },
  },
];
