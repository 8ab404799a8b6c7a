// The cluster's page, that of the site caches, and who may come in.
import { strict as assert } from "node:assert";
import { readFile } from "node:fs/promises";
import { STRANGE } from "../browser.mjs";

export const tests = [
  {
    name: "cluster: a server that stands alone",
    on: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("cluster");
      await window.shows("one server that stands alone");
      await page.getByRole("region", { name: "Servers" }).getByText("serving").waitFor();
      await page.getByRole("region", { name: "Servers" }).getByText(server.address).waitFor();
      // Points of the series come as long as the page is open.
      await page.getByRole("region", { name: "Calls a second" }).locator("canvas").waitFor();
      await window.seen("cluster");
    },
  },
  {
    name: "site caches: none is named",
    on: "lab",
    async test(window) {
      await window.go("sites");
      await window.shows(/names no tier/);
      await window.seen("sites-none");
    },
  },
  {
    name: "site caches: a tier that answers, and one that does not",
    on: "sites",
    async test(window) {
      const { page } = window;
      await window.go("sites");
      await window.shows("edge-lab");
      await window.shows(/Prefetches right/);
      await page.locator("main .pill").getByText("up", { exact: true }).waitFor();
      await page.getByRole("region", { name: "http://127.0.0.1:9" }).getByRole("alert").waitFor();
      await page.getByRole("region").getByText("Requests a second").waitFor();
      await page.locator("main canvas").first().waitFor();
      await window.seen("sites");
    },
  },
  {
    name: "a link opens the pages once",
    on: "opened",
    async test(window) {
      const { page, server } = window;
      assert.doesNotMatch(server.said, /ticket/, "a log tells no ticket");
      const leading = /file:\/\/(\S+\.html)/.exec(server.said)?.[1];
      assert.ok(leading, `the server says where its pages are: ${server.said}`);
      const link = /href="([^"]+)"/.exec(await readFile(leading, "utf8"))?.[1];
      assert.match(link ?? "", /^http:.+#\/enter\?ticket=/);
      await page.goto(link);
      await page.getByRole("region", { name: "Counts" }).waitFor();
      assert.doesNotMatch(page.url(), /ticket/, "the address forgets the ticket");
      const [cookie] = await page.context().cookies();
      assert.ok(cookie?.httpOnly, "scripts cannot read the session");
      assert.equal(cookie?.sameSite, "Strict");
      window.expect(/401/);
      await page.goto(`${server.url}/#/`);
      await page.goto(link);
      await page.getByRole("alert").waitFor();
      await window.seen("link-used");
    },
  },
  {
    name: "under a strange name the server knows nobody",
    on: "lab",
    async test(window) {
      window.expect(/401|EventSource/);
      window.origin = `http://${STRANGE}:${new URL(window.server.url).port}`;
      await window.go("");
      await window.shows("Who are you?");
      await window.shows(/esker console/);
      await window.seen("stranger");
    },
  },
];
