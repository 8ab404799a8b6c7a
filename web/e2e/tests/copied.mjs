// What “copy as” gives works where it is put: each command line is run by a shell, each address is asked.
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
  "around?id=job:4501",
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
    name: "copy as: command lines run, addresses answer, the link comes back to the same",
    on: "lab",
    async test(window) {
      const { page, server } = window;
      // A folder whose `esker` is the one under test, and whose `T` is the database.
      const at = join(dirname(server.folder), "shell");
      await mkdir(join(at, "bin"), { recursive: true });
      await symlink(binary(), join(at, "bin/esker")).catch(() => {});
      await symlink(server.folder, join(at, "T")).catch(() => {});
      await chmod(at, 0o755);
      const env = { ...process.env, PATH: `${join(at, "bin")}:${process.env.PATH}` };
      const wrong = [];
      for (const hash of PAGES) {
        await window.go(hash);
        const open = page.locator('main button[aria-haspopup="menu"]');
        for (const way of ["CLI", "Python", "Travel", "SPARQL", "HTTP", "Link"]) {
          await open.click();
          const item = page.getByRole("menu", { name: "Copy as" }).getByRole("menuitem", { name: new RegExp(`^${way}\\b`) });
          if ((await item.count()) === 0) {
            await page.keyboard.press("Escape");
            continue;
          }
          await item.click();
          const text = await page.evaluate(() => navigator.clipboard.readText());
          try {
            if (way === "Link") assert.equal(text, page.url());
            else if (way === "CLI") await command("bash", ["-euc", text], { cwd: at, env });
            else if (way === "Python") {
              if (process.env.ESKER_PYTHON) await command(process.env.ESKER_PYTHON, ["-c", text], { cwd: at });
            } else if (way === "Travel") await command(binary(), ["travel", server.folder, text]);
            else if (way === "SPARQL") await command(binary(), ["sparql", server.folder, text]);
            else if (text.startsWith("curl"))
              await command("bash", ["-euc", text.replace("curl", "curl -sSf")], { cwd: at, env });
            else {
              const answer = await fetch(server.url + text.replace(/^GET /, ""));
              assert.ok(answer.ok, `${answer.status}: ${await answer.text()}`);
            }
          } catch (e) {
            wrong.push(`#/${hash}, ${way}: ${text}\n      ${e.message}`);
          }
        }
      }
      assert.deepEqual(wrong, [], `\n${wrong.join("\n")}`);
    },
  },
];
