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
  if (!existsSync(found)) throw new Error(`there is no ${found}: build it (cargo build --locked --bin esker), or set ESKER_BIN`);
  return resolve(found);
}

/** Runs a command of the program to its end; what it prints. */
export async function esker(...args) {
  return command(binary(), args);
}

export async function command(program, args, options = {}) {
  try {
    const { stdout } = await execute(program, args, { maxBuffer: 1 << 28, timeout: 300_000, ...options });
    return stdout;
  } catch (e) {
    throw new Error(`${program} ${args.join(" ")}: ${e.code ?? e.signal}\n${e.stdout ?? ""}${e.stderr ?? ""}`);
  }
}

/** A server of a database. After `kill` the same one can be started again, where it was. */
export class Server {
  constructor(folder, options = []) {
    this.folder = folder;
    this.options = options;
    this.address = null;
    this.process = null;
  }

  async start() {
    const file = `${this.folder}.port`;
    await rm(file, { force: true });
    const listen = this.address ?? "127.0.0.1:0";
    const args = ["serve", this.folder, "--listen", listen, "--port-file", file, "--log", "warn", ...this.options];
    const child = spawn(binary(), args, { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (part) => {
      said += part;
    });
    child.gone = new Promise((done) => child.once("exit", done));
    child.once("exit", () => running.delete(child));
    running.add(child);
    this.process = child;
    while (!existsSync(file)) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`esker ${args.join(" ")} ended:\n${said}`);
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

/** A file of settings for `esker serve --config`. */
export async function settings(folder, text) {
  const file = `${folder}.toml`;
  await writeFile(file, text);
  return ["--config", file];
}

/** Ends what is left. */
export async function stop() {
  const left = [...running];
  for (const child of left) child.kill("SIGKILL");
  await Promise.all(left.map((child) => child.gone));
}
