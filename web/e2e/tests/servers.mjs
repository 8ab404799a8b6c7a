// The pages Cluster and Site caches, and access to the console.
import { strict as assert } from "node:assert";
import { readFile } from "node:fs/promises";
import { OTHER_HOST } from "../browser.mjs";

export const tests = [
  {
    name: "cluster: a single server",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("cluster");
      await window.shows("a single server");
      await page.getByRole("region", { name: "Servers" }).getByText("serving").waitFor();
      await page.getByRole("region", { name: "Servers" }).getByText(server.address).waitFor();
      // The chart appears after the second response.
      await page.getByRole("region", { name: "Calls a second" }).locator("canvas").waitFor();
      await window.inspect("cluster");
    },
  },
  {
    name: "site caches: no tier in the configuration",
    database: "lab",
    async test(window) {
      await window.go("sites");
      await window.shows(/names no tier/);
      await window.inspect("sites-none");
    },
  },
  {
    name: "site caches: one tier that answers, and one that does not",
    database: "sites",
    async test(window) {
      const { page } = window;
      await window.go("sites");
      await window.shows("edge-lab");
      await window.shows(/Useful prefetches/);
      await page.locator("main .pill").getByText("up", { exact: true }).waitFor();
      await page.getByRole("region", { name: "http://127.0.0.1:9" }).getByRole("alert").waitFor();
      await page.getByRole("region").getByText("Requests a second").waitFor();
      await page.locator("main canvas").first().waitFor();
      await window.inspect("sites");
    },
  },
  {
    name: "a link with a ticket works once",
    database: "link",
    async test(window) {
      const { page, server } = window;
      assert.doesNotMatch(server.output, /ticket/, "the log does not contain the ticket");
      const file = /file:\/\/(\S+\.html)/.exec(server.output)?.[1];
      assert.ok(file, `the server prints the file with the link: ${server.output}`);
      const link = /href="([^"]+)"/.exec(await readFile(file, "utf8"))?.[1];
      assert.match(link ?? "", /^http:.+#\/enter\?ticket=/);
      await page.goto(link);
      await page.getByRole("region", { name: "Counts" }).waitFor();
      assert.doesNotMatch(page.url(), /ticket/, "the ticket is removed from the address");
      const [cookie] = await page.context().cookies();
      assert.ok(cookie?.httpOnly, "scripts cannot read the session");
      assert.equal(cookie?.sameSite, "Strict");
      window.expect(/401/);
      await page.goto(`${server.url}/#/`);
      await page.goto(link);
      await page.getByRole("alert").waitFor();
      await window.inspect("link-used");
    },
  },
  {
    name: "a host name that the server does not accept needs a credential",
    database: "lab",
    async test(window) {
      window.expect(/401|EventSource/);
      window.origin = `http://${OTHER_HOST}:${new URL(window.server.url).port}`;
      await window.go("");
      await window.shows("No valid credential");
      await window.shows(/esker console/);
      await window.inspect("no-credential");
    },
  },
];
