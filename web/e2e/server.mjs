// Real servers: `esker serve` on a port of the system's choice, ended by their own process ids.
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);
const running = new Set();

/** The program: `ESKER_BIN`, else what cargo built. */
export function binary() {
  const built = join(process.env.CARGO_TARGET_DIR ?? resolve(import.meta.dirname, "../../target"), "debug/esker");
  const found = process.env.ESKER_BIN ?? built;
  if (!existsSync(found))
    throw new Error(`there is no ${found}: build it (cargo build --locked --bin esker), or set ESKER_BIN`);
  return resolve(found);
}

/** Runs a command of the program to its end; what it prints. */
export async function esker(...args) {
  return command(binary(), args);
}

export async function command(program, args, options = {}) {
  try {
    const { stdout } = await execute(program, args, { maxBuffer: 1 << 28, timeout: 600_000, ...options });
    return stdout;
  } catch (e) {
    throw new Error(`${program} ${args.join(" ")}: ${e.code ?? e.signal}\n${e.stdout ?? ""}${e.stderr ?? ""}`);
  }
}

/** A program that takes calls. After `kill` the same one can be started again, where it was. */
class Program {
  constructor(file) {
    this.file = file;
    this.address = null;
    this.process = null;
    this.said = "";
  }

  /** `args` of the address, and of the file that the program writes its address to. */
  async launch(args) {
    const file = `${this.file}.port`;
    await rm(file, { force: true });
    const all = args(this.address ?? "127.0.0.1:0", file);
    // There is no screen: nothing is opened in somebody's own browser.
    const env = { ...process.env, DISPLAY: "", WAYLAND_DISPLAY: "", BROWSER: "" };
    const child = spawn(binary(), all, { stdio: ["ignore", "pipe", "pipe"], env });
    this.said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (part) => {
        this.said += part;
      });
    }
    child.gone = new Promise((done) => child.once("exit", done));
    child.once("exit", () => running.delete(child));
    running.add(child);
    this.process = child;
    while (!existsSync(file) || !(await readFile(file, "utf8")).endsWith("\n")) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`esker ${all.join(" ")} ended:\n${this.said}`);
      await new Promise((wake) => setTimeout(wake, 50));
    }
    this.address = (await readFile(file, "utf8")).trim();
    return this;
  }

  get url() {
    return `http://${this.address}`;
  }

  async kill(signal = "SIGKILL") {
    this.process.kill(signal);
    await this.process.gone;
  }
}

/** A server of a database. */
export class Server extends Program {
  constructor(folder, options = []) {
    super(folder);
    this.folder = folder;
    this.options = options;
  }

  start() {
    return this.launch((address, file) => [
      "serve",
      this.folder,
      "--listen",
      address,
      "--port-file",
      file,
      "--log",
      "warn",
      ...this.options,
    ]);
  }
}

/** A tier of site caches that may ask folders of this machine. */
export class Tier extends Program {
  async start() {
    const settings = `${this.file}.toml`;
    await writeFile(settings, 'name = "edge-lab"\n[origins]\nallow = ["file://"]\n');
    return this.launch((address, file) => [
      "site",
      "serve",
      settings,
      "--listen",
      address,
      "--port-file",
      file,
      "--log",
      "warn",
    ]);
  }
}

/** Ends what is left. */
export async function stop() {
  const left = [...running];
  for (const child of left) child.kill("SIGKILL");
  await Promise.all(left.map((child) => child.gone));
}
