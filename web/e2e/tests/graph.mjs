// The pages Lineage and Neighbourhood.
import { strict as assert } from "node:assert";
import { readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { DARSHAN, TASKS } from "../lab.mjs";

const lineage = (id, more = "") => `lineage?id=${encodeURIComponent(id)}${more}`;

/** Returns name and contents of the file that an action downloads. */
async function saved(page, action) {
  const [download] = await Promise.all([page.waitForEvent("download"), action()]);
  return [download.suggestedFilename(), await readFile(await download.path())];
}

/** Returns the largest difference of colour, from 0 to 255, between parts of two PNG pictures; each is divided into 40 by 22 parts. */
function difference(page, one, other) {
  const encoded = [one, other].map((png) => `data:image/png;base64,${png.toString("base64")}`);
  return page.evaluate(async (addresses) => {
    const [first, second] = await Promise.all(
      addresses.map(async (address) => {
        const image = new Image();
        image.src = address;
        await image.decode();
        const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 22 });
        const context = canvas.getContext("2d");
        context.imageSmoothingQuality = "high";
        context.drawImage(image, 0, 0, 40, 22);
        return context.getImageData(0, 0, 40, 22).data;
      }),
    );
    return Math.max(...first.map((colour, i) => Math.abs(colour - second[i])));
  }, encoded);
}

/** Locates the box of a vertex in the picture. */
const box = (page, id) => page.locator(`.react-flow__node[data-id="${id}"]`);

export const tests = [
  {
    name: "lineage of a file in Darshan's logs",
    database: "lab",
    async test(window) {
      const { page } = window;
      const c = `file:${DARSHAN}/C`;
      await window.go(lineage(c, "&up=3"));
      // A job read A and B and wrote C; other jobs wrote A and B.
      for (const name of ["A", "B", "C"]) await box(page, `file:${DARSHAN}/${name}`).waitFor();
      const x = async (id) => (await box(page, id).boundingBox())?.x ?? Number.NaN;
      assert.ok((await x(`file:${DARSHAN}/A`)) < (await x(c)), "inputs are left of outputs");
      await page.locator(".react-flow__edge").nth(3).waitFor({ state: "attached" });
      const selection = page.getByRole("complementary", { name: "Selection" });
      await selection.getByText(`${DARSHAN}/C`).first().waitFor();
      await window.inspect("lineage");
      // A click selects another box.
      await box(page, `file:${DARSHAN}/A`).click();
      await page.waitForURL(/sel=/);
      await selection.getByText(`${DARSHAN}/A`).first().waitFor();
      await selection.getByRole("button", { name: "Show history" }).click();
      await selection.getByRole("button", { name: "Hide history" }).waitFor();
      await window.shot("lineage-selected");
      await selection.getByRole("tab", { name: "Impact" }).click();
      await selection.getByText(/derived from this one/).waitFor();
      await window.inspect("lineage-impact");
    },
  },
  {
    name: "lineage: hundreds of similar vertices are one group, and can be shown one by one",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go(lineage("file:/scratch/spring/merged.h5", "&up=3"));
      const group = page.locator(".react-flow__node .group").filter({ hasText: /\d+ ×/ });
      await group.first().waitFor();
      const grouped = (await group.allInnerTexts()).map((text) => Number(text.match(/(\d[\d,]*) ×/)?.[1]?.replaceAll(",", "")));
      assert.ok(grouped.reduce((a, b) => a + b, 0) >= TASKS, `${TASKS} parts are in groups: ${grouped.join(", ")}`);
      await window.inspect("lineage-groups");
      const boxes = await page.locator(".react-flow__node").count();
      await group
        .first()
        .getByRole("button", { name: /one by one/ })
        .click();
      await page.waitForURL(/split=/);
      await page.waitForFunction((n) => document.querySelectorAll(".react-flow__node").length > n, boxes);
      await window.inspect("lineage-split");
      await page.getByRole("button", { name: "Collapse all" }).click();
      await page.waitForFunction((n) => document.querySelectorAll(".react-flow__node").length === n, boxes);
    },
  },
  {
    name: "lineage: a vertex expands and collapses",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go(lineage("file:/scratch/spring/figure-1.png"));
      const before = await page.locator(".react-flow__node").count();
      await page
        .getByRole("button", { name: /more before/ })
        .first()
        .click();
      await page.waitForURL(/open=/);
      await page.waitForFunction((n) => document.querySelectorAll(".react-flow__node").length > n, before);
      await window.shot("lineage-expanded");
      await page.goBack();
      await page.waitForFunction((n) => document.querySelectorAll(".react-flow__node").length === n, before);
    },
  },
  {
    name: "lineage as of an earlier version",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go(lineage("file:/scratch/spring/merged.h5"));
      // Jobs 4500 and 4503 wrote the file.
      await box(page, "job:4503").waitFor();
      const slider = page.getByRole("slider", { name: "As of" });
      await slider.focus();
      const ticks = Number(await slider.getAttribute("max"));
      assert.ok(ticks >= 2, `the slider has ${ticks} versions`);
      await page.keyboard.press("Home");
      await page.waitForURL(/as_of=/);
      await window.settled();
      await box(page, "job:4503").waitFor({ state: "detached" });
      await window.inspect("lineage-as-of");
      await page.getByRole("button", { name: "Now", exact: true }).click();
      await box(page, "job:4503").waitFor();
    },
  },
  {
    name: "lineage saved as SVG, PNG and RO-Crate",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go(lineage(`file:${DARSHAN}/C`, "&up=3"));
      await box(page, `file:${DARSHAN}/A`).waitFor();
      const [svgName, svg] = await saved(page, () => page.getByRole("button", { name: "SVG" }).click());
      assert.equal(svgName, "C.svg");
      assert.match(svg.toString(), /^(<\?xml[^>]*>\s*)?<svg[\s\S]*<\/svg>\s*$/);
      // The first page of the documentation shows this picture.
      const figure = resolve(import.meta.dirname, "../../../docs/book/figures/lineage.svg");
      if (process.env.UPDATE_EXPECT) await writeFile(figure, svg);
      assert.equal(
        svg.toString(),
        await readFile(figure, "utf8"),
        "`UPDATE_EXPECT=1 npm run e2e -- SVG` writes docs/book/figures/lineage.svg",
      );
      const [pngName, png] = await saved(page, () => page.getByRole("button", { name: "PNG" }).click());
      assert.equal(pngName, "C.png");
      assert.deepEqual(
        [...png.subarray(1, 4)],
        [..."PNG"].map((c) => c.charCodeAt(0)),
      );
      assert.ok(png.length > 2_000, `${png.length} bytes`);
      const [, crate] = await saved(page, () => page.getByRole("link", { name: "RO-Crate" }).click());
      const graph = JSON.parse(crate.toString())["@graph"];
      assert.ok(
        graph.some((entity) => JSON.stringify(entity).includes(`${DARSHAN}/C`)),
        "the crate names the file",
      );
    },
  },
  {
    name: "the screenshot in the documentation",
    database: "lab",
    async test(window) {
      const { page } = window;
      await page.setViewportSize({ width: 1200, height: 520 });
      await window.go(lineage(`file:${DARSHAN}/C`, "&up=3"));
      for (const name of ["A", "B", "C"]) await box(page, `file:${DARSHAN}/${name}`).waitFor();
      await page.locator(".react-flow__edge").nth(3).waitFor({ state: "attached" });
      await page.getByRole("complementary", { name: "Selection" }).getByText(`${DARSHAN}/C`).first().waitFor();
      await window.shot("documentation");
      const made = await page.screenshot();
      const figure = resolve(import.meta.dirname, "../../../docs/book/figures/console.png");
      if (process.env.UPDATE_EXPECT) await writeFile(figure, made);
      assert.ok(made.length < 150_000, `the screenshot has ${made.length} bytes`);
      // Fonts and browsers draw letters differently, but a page with other parts has other colours in some of them.
      const differs = await difference(page, made, await readFile(figure));
      assert.ok(
        differs < 24,
        `docs/book/figures/console.png differs by ${differs}: \`UPDATE_EXPECT=1 npm run e2e -- screenshot\` makes it anew`,
      );
    },
  },
  {
    name: "lineage without a vertex, and of a vertex that does not exist",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("lineage");
      await window.inspect("lineage-nothing");
      await page.locator("main").getByRole("combobox").fill("mesh.nc");
      await page
        .locator("main")
        .getByRole("option", { name: /mesh\.nc/ })
        .first()
        .click();
      await box(page, "file:/scratch/spring/mesh.nc").waitFor();
      window.expect(/404/);
      await window.go(lineage("file:/no/such/file"));
      await window.shows(/Not found|no such|not/i);
      await window.shot("lineage-unknown");
    },
  },
  {
    name: "the neighbourhood of a vertex, as a picture and as a table",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("neighbourhood?id=user:1001&depth=3");
      await page
        .getByRole("status")
        .filter({ hasText: /vertices, .* edges/ })
        .waitFor();
      const table = page.getByRole("table", { name: "Vertices of the neighbourhood" });
      await table.getByRole("button", { name: "Edges" }).click();
      await table.getByText("mesh.nc").first().waitFor();
      await page.locator("main canvas").first().waitFor();
      await window.inspect("neighbourhood");
      await table.locator('[aria-rowindex="3"]').click();
      await page.waitForURL(/sel=/);
      await window.shot("neighbourhood-selected");
      // With a smaller limit, the page counts the vertices that it does not show.
      await window.go("neighbourhood?id=user:1001&depth=4&limit=500");
      await window.shows(/not shown/);
      await window.shot("neighbourhood-limit");
    },
  },
];
