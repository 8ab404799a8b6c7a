// The pages Search, Runs, Space and Tags.
import { strict as assert } from "node:assert";
import { OBJECTS, TASKS } from "../lab.mjs";
import { esker } from "../server.mjs";

export const tests = [
  {
    name: "search by words, and facets",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("search");
      await window.shows("Words find vertices");
      await window.inspect("search-nothing");
      await page.getByRole("textbox", { name: "Words or a filter" }).fill("spring part");
      await page.keyboard.press("Enter");
      await page.waitForURL(/q=spring\+part/);
      await page.getByRole("table", { name: "Search results" }).waitFor();
      await window.shows(new RegExp(`of ${TASKS}\\b`));
      await window.inspect("search");
      await window.go("search?q=spring");
      await page.getByRole("complementary", { name: "Facets" }).getByRole("button", { name: /^png/ }).click();
      await page.waitForURL(/ending=png/);
      await window.shows("figure-1.png");
      await window.shows(/^1 row/);
    },
  },
  {
    name: "search by a filter of objects",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go(`search?q=${encodeURIComponent("campaign = 'spring' AND energy > 10")}`);
      const total = await esker("find", server.folder, "campaign = 'spring' AND energy > 10", "--count");
      await window.shows(new RegExp(`of ${total.trim()}\\b`));
      await window.inspect("search-filter");
      await page.getByRole("link", { name: "tag these" }).click();
      await page.waitForURL(/#\/tags\?filter=/);
    },
  },
  {
    name: "a table sorts by a column and moves by keys",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("search?q=scratch+spring&type=File");
      const table = page.getByRole("table", { name: "Search results" });
      await table.getByRole("button", { name: "Size" }).click();
      await table.getByRole("columnheader", { name: /Size/ }).and(page.locator("[aria-sort=descending]")).waitFor();
      await window.shows("merged.h5");
      await table.getByRole("rowgroup", { name: "Rows of Search results" }).focus();
      await page.keyboard.press("End");
      await table.locator(`[aria-rowindex="${Number(await table.getAttribute("aria-rowcount"))}"]`).waitFor();
    },
  },
  {
    name: "runs, and a comparison of two runs",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("runs");
      await window.shows("forecast");
      await window.inspect("runs");
      await page.getByLabel("State").selectOption("failed");
      await page.waitForURL(/state=failed/);
      await window.shows("smooth-badly");
      await page.locator("main").getByText("forecast").waitFor({ state: "detached" });
      await window.go("runs?text=smooth");
      const boxes = page.getByRole("row").filter({ hasNotText: "smooth-badly" }).getByRole("checkbox");
      await boxes.nth(1).check();
      await boxes.nth(0).check();
      await page.getByRole("link", { name: "Compare the two runs" }).click();
      await page.waitForURL(/#\/diff\?a=/);
      const settings = page.getByRole("region", { name: "setting", exact: true });
      const row = settings.getByRole("row").filter({ hasText: "window" });
      await row.waitFor();
      assert.match((await row.allInnerTexts()).join(), /5[\s\S]*9|9[\s\S]*5/);
      assert.equal(await settings.getByText("median").count(), 0, "equal values are not shown");
      await window.inspect("diff");
      await page.getByRole("checkbox").first().check();
      await settings.getByText("median").first().waitFor();
    },
  },
  {
    name: "the page of a job of Slurm",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("run?id=job:4500");
      await window.shows("gather");
      await page.getByRole("tab", { name: "Outputs (1)" }).waitFor();
      await page.getByRole("tab", { name: `Inputs (${TASKS})` }).click();
      await page.getByRole("table", { name: "Inputs" }).getByText("part-0000.h5").waitFor();
      await window.shows("climate");
      await window.inspect("run");
      await window.go("run?id=job:4502");
      await window.shows(/fail/i);
      // A job array has its tasks as parts.
      await window.go("run?id=job:4100");
      await window.inspect("run-array");
      window.expect(/40[04]/);
      await window.go("run?id=job:999999");
      await window.shows(/no run `job:999999`/);
      await window.inspect("run-unknown");
    },
  },
  {
    name: "a recorded run",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("runs?text=smooth");
      await page.getByRole("main").getByRole("link", { name: "smooth", exact: true }).first().click();
      await page.waitForURL(/#\/run\?id=/);
      const settings = page.getByRole("region", { name: "Settings" });
      await settings.getByText("method").waitFor();
      await settings.getByText("median").waitFor();
      await page
        .getByRole("table", { name: "Outputs" })
        .getByText(/smooth-\d\.csv/)
        .first()
        .waitFor();
      await window.inspect("run-recorded");
      await page.getByRole("link", { name: "Lineage", exact: true }).last().click();
      await page.waitForURL(/#\/lineage\?id=/);
    },
  },
  {
    name: "space by directory, and in one directory",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("space?path=/project");
      const table = page.getByRole("table", { name: "Directories" });
      await table.getByText("ocean").waitFor();
      const [usage] = JSON.parse(await esker("du", server.folder, "/project", "--format", "json"));
      await window.shows(new RegExp(`${usage.size.toLocaleString("en-GB")} bytes`));
      await window.inspect("space");
      await page
        .getByRole("region", { name: "Treemap" })
        .getByRole("button", { name: /^ocean,/ })
        .click();
      await page.waitForURL(/path=%2Fproject%2Focean/);
      await table.getByText("raw").waitFor();
      await page.getByRole("navigation", { name: "Path" }).getByRole("button", { name: "project" }).click();
      await table.getByText("atmosphere").waitFor();
    },
  },
  {
    name: "space by user, project, extension, kind and age",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("space");
      for (const [by, text] of [
        ["User", /\d/],
        ["Project", /Projects are the directories/],
        ["Extension", "grib"],
        ["Kind", "directory"],
        ["Age", /20\d\d-\d\d/],
      ]) {
        await page.getByRole("tab", { name: by, exact: true }).click();
        await page.getByRole("table", { name: "Totals" }).waitFor();
        await window.shows(text);
        await window.inspect(`space-${by.toLowerCase()}`);
      }
    },
  },
  {
    name: "tags: distribution of values, a filter by clicks, tagging",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("tags");
      await window.shows(new RegExp(`${OBJECTS} objects in all`));
      await page.getByRole("region", { name: "Names" }).getByRole("button", { name: "energy", exact: true }).click();
      const values = page.getByRole("region", { name: "Values" });
      await values.getByText(new RegExp(`of ${OBJECTS} objects have this tag`)).waitFor();
      await window.inspect("tags");
      await page.getByRole("region", { name: "Names" }).getByRole("button", { name: "campaign", exact: true }).click();
      await values.getByRole("button", { name: /^summer/ }).click();
      await page.waitForURL(/filter=/);
      const filter = new URL(page.url().replace("#/", "")).searchParams.get("filter") ?? "";
      const matches = (await esker("find", server.folder, filter, "--count")).trim();
      const matching = page.getByRole("region", { name: "Matches" });
      await matching.getByText(`${matches} objects match`).waitFor();
      await window.inspect("tags-filter");
      await matching.getByRole("button", { name: "Tag these objects…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("textbox", { name: "Set" }).fill("checked=true, grade=3");
      await window.inspect("tags-dialog");
      await dialog.getByRole("button", { name: `Change ${matches} objects` }).click();
      await dialog.getByText(`${matches} of ${matches} objects were changed`).waitFor();
      assert.equal((await esker("find", server.folder, "checked = true AND grade = 3", "--count")).trim(), matches);
    },
  },
];
