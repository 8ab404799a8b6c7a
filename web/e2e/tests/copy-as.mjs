// The menu “Copy as”: a shell runs each copied command, and the server answers each copied request.
import { strict as assert } from "node:assert";
import { chmod, mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DARSHAN } from "../lab.mjs";
import { binary, command } from "../server.mjs";

const PAGES = [
  "",
  "search?q=spring+part&type=File",
  `search?q=${encodeURIComponent("campaign = 'spring' AND energy > 10")}`,
  `lineage?id=${encodeURIComponent(`file:${DARSHAN}/C`)}`,
  "neighbourhood?id=job:4501",
  "runs",
  "runs?user=bob&state=failed&since=2026-03-01",
  "run?id=job:4500",
  "diff?a=job:4500&b=job:4503",
  "space?path=/project",
  "space?by=user",
  "space?by=project",
  "space?by=type",
  "space?by=kind",
  "space?by=age",
  `tags?filter=${encodeURIComponent("campaign = 'spring'")}`,
  `travel?q=${encodeURIComponent('v("user:1001").e("run").v()')}`,
  `sparql?q=${encodeURIComponent("SELECT ?s WHERE { ?s ?p 'it''s' }".replace("'it''s'", '"it\'s"'))}`,
  "cluster",
];

export const tests = [
  {
    name: "copy as: commands run, requests succeed, the link is the page's address",
    database: "lab",
    async test(window) {
      const { page, server } = window;
      // In this folder, `esker` is the program under test, and `T` the database.
      const folder = join(dirname(server.folder), "shell");
      await mkdir(join(folder, "bin"), { recursive: true });
      await symlink(binary(), join(folder, "bin/esker")).catch(() => {});
      await symlink(server.folder, join(folder, "T")).catch(() => {});
      await chmod(folder, 0o755);
      const env = { ...process.env, PATH: `${join(folder, "bin")}:${process.env.PATH}` };
      const failures = [];
      for (const hash of PAGES) {
        await window.go(hash);
        const open = page.locator('main button[aria-haspopup="menu"]');
        for (const format of ["CLI", "Python", "Travel", "SPARQL", "HTTP", "Link"]) {
          await open.click();
          const item = page.getByRole("menu", { name: "Copy as" }).getByRole("menuitem", { name: new RegExp(`^${format}\\b`) });
          if ((await item.count()) === 0) {
            await page.keyboard.press("Escape");
            continue;
          }
          await item.click();
          const text = await page.evaluate(() => navigator.clipboard.readText());
          try {
            if (format === "Link") assert.equal(text, page.url());
            else if (format === "CLI") await command("bash", ["-euc", text], { cwd: folder, env });
            else if (format === "Python") {
              if (process.env.ESKER_PYTHON) await command(process.env.ESKER_PYTHON, ["-c", text], { cwd: folder });
            } else if (format === "Travel") await command(binary(), ["travel", server.folder, text]);
            else if (format === "SPARQL") await command(binary(), ["sparql", server.folder, text]);
            else if (text.startsWith("curl"))
              await command("bash", ["-euc", text.replace("curl", "curl -sSf")], { cwd: folder, env });
            else {
              const response = await fetch(server.url + text.replace(/^GET /, ""));
              assert.ok(response.ok, `${response.status}: ${await response.text()}`);
            }
          } catch (e) {
            failures.push(`#/${hash}, ${format}: ${text}\n      ${e.message}`);
          }
        }
      }
      assert.deepEqual(failures, [], `\n${failures.join("\n")}`);
    },
  },
];
