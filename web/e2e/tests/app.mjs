// The page Home, and the frame of all pages: navigation, search box, palette, keys, colours.
import { strict as assert } from "node:assert";
import { esker } from "../server.mjs";

export const tests = [
  {
    name: "home",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("");
      const counts = page.getByRole("region", { name: "Counts" });
      // The page and the command have the same counts.
      const stats = JSON.parse(await esker("stats", server.folder, "--format", "json"));
      const files = JSON.stringify(stats).match(/"File":(\d+)/)?.[1] ?? "";
      await counts
        .getByRole("row", { name: "File" })
        .getByText(Number(files).toLocaleString("en-GB"), { exact: true })
        .waitFor();
      await page.getByRole("region", { name: "Recent runs" }).getByText("smooth-badly").waitFor();
      await page.getByRole("list", { name: "Health" }).getByText("store").waitFor();
      const painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
      const loaded = await page.evaluate(() =>
        performance
          .getEntriesByType("resource")
          .filter((r) => /\.(js|css)$/.test(r.name))
          .reduce((sum, r) => sum + r.encodedBodySize, 0),
      );
      console.log(
        `  home: first paint after ${Math.round(painted)} ms, ${Math.round(loaded / 1024)} KiB of scripts and styles`,
      );
      await window.inspect("home");
      await page.getByRole("region", { name: "Counts" }).getByRole("link", { name: "Job", exact: true }).click();
      await page.waitForURL(/#\/search\?type=Job$/);
      await window.shows("simulate");
    },
  },
  {
    name: "home shows changes as they are committed",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      await window.go("");
      await esker("put", server.folder, "file:/scratch/just-now.txt", "size=5");
      await page.getByRole("region", { name: "Changes" }).getByText("just-now.txt").first().waitFor();
      await window.shot("home-changed");
    },
  },
  {
    name: "navigation opens every page",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("");
      for (const name of await page.getByRole("navigation", { name: "Pages" }).getByRole("link").allInnerTexts()) {
        const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: name.trim(), exact: true });
        await link.click();
        // Until the title changes, the previous page may be visible.
        await page.waitForFunction((title) => document.title === title, `${name.trim()} · Esker`);
        await window.settled();
        assert.equal(await link.getAttribute("aria-current"), "page", name);
        const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(excess <= 0, `${name} is ${excess} px wider than the window`);
      }
      await window.go("no-such-page");
      await window.shows(/there is no page “no-such-page”/);
    },
  },
  {
    name: "search box: suggestions by keyboard",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("cluster");
      await page.keyboard.press("/");
      const box = page.getByRole("combobox", { name: "Search everything" });
      assert.ok(await box.evaluate((e) => e === document.activeElement), "the key / goes to the search box");
      await page.keyboard.type("merged");
      const list = page.getByRole("listbox", { name: "Suggestions" });
      await list.getByText("merged.h5").first().waitFor();
      await window.inspect("suggestions");
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.waitForURL(/#\/lineage\?id=file/);
      await window.settled();
      await window.shows("merged.h5");
    },
  },
  {
    name: "palette and list of keys",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("");
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await window.inspect("keys");
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "hidden" });
      await page.keyboard.press("Control+k");
      const palette = page.getByRole("dialog", { name: "Go to" });
      await palette.waitFor();
      await page.keyboard.type("spa");
      await palette.getByRole("option", { name: /Space/ }).first().waitFor();
      await window.inspect("palette");
      await page.keyboard.press("Enter");
      await page.waitForURL(/#\/space/);
      // The palette finds vertices as well.
      await page.keyboard.press("Control+k");
      await page.keyboard.type("figure-1.png");
      await palette
        .getByRole("option", { name: /figure-1\.png/ })
        .first()
        .click();
      await page.waitForURL(/#\/lineage\?id=/);
    },
  },
  {
    name: "colours by the switch",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("");
      const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const light = await background();
      const button = page.getByRole("button", { name: /^Colours:/ });
      await button.click();
      await button.click();
      assert.match((await button.getAttribute("aria-label")) ?? "", /^Colours: dark/);
      assert.notEqual(await background(), light);
      await page.reload();
      await window.settled();
      assert.notEqual(await background(), light, "the choice is kept");
      await window.accessible("home, dark by the switch");
    },
  },
  {
    name: "the Tab key reaches every control",
    database: "lab",
    async test(window) {
      const { page } = window;
      await window.go("runs");
      await page.keyboard.press("Tab");
      assert.match(await page.evaluate(() => document.activeElement?.textContent ?? ""), /To the page/);
      await window.shot("skip");
      const reached = new Set();
      for (let n = 0; n < 40; n++) {
        await page.keyboard.press("Tab");
        const [name, outlined] = await page.evaluate(() => {
          const e = document.activeElement;
          const style = e ? getComputedStyle(e) : null;
          return [
            e?.getAttribute("aria-label") ?? e?.textContent ?? "",
            style ? style.outlineStyle !== "none" || style.boxShadow !== "none" : false,
          ];
        });
        if (name) assert.ok(outlined, `the focus on “${name}” is not visible`);
        reached.add(name.trim());
      }
      for (const name of ["Home", "Site caches", "Keys"])
        assert.ok(reached.has(name), `${name} was not reached: ${[...reached].join(", ")}`);
    },
  },
];
