// Server processes: `esker serve` and `esker site serve`, each on a free port.
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);
const running = new Set();

/** Returns the path of the program: `ESKER_BIN`, or the debug build. */
export function binary() {
  const debugBuild = join(process.env.CARGO_TARGET_DIR ?? resolve(import.meta.dirname, "../../target"), "debug/esker");
  const program = process.env.ESKER_BIN ?? debugBuild;
  if (!existsSync(program))
    throw new Error(`${program} does not exist: build it (cargo build --locked --bin esker), or set ESKER_BIN`);
  return resolve(program);
}

/** Runs a command of the program, and returns its output. */
export async function esker(...args) {
  return command(binary(), args);
}

/** Runs a program, and returns its output; if it fails, the error has its exit code and output. */
export async function command(program, args, options = {}) {
  try {
    const { stdout } = await execute(program, args, { maxBuffer: 1 << 28, timeout: 600_000, ...options });
    return stdout;
  } catch (e) {
    throw new Error(`${program} ${args.join(" ")}: ${e.code ?? e.signal}\n${e.stdout ?? ""}${e.stderr ?? ""}`);
  }
}

/** A server process. After `kill`, it can be started again at the same address. */
class Program {
  constructor(file) {
    this.file = file;
    this.address = null;
    this.process = null;
    this.output = "";
  }

  /** Starts the process, and waits until it has written its address to a file. `args` returns its arguments from address and file. */
  async launch(args) {
    const file = `${this.file}.port`;
    await rm(file, { force: true });
    const all = args(this.address ?? "127.0.0.1:0", file);
    // Without a display, the program opens no browser.
    const env = { ...process.env, DISPLAY: "", WAYLAND_DISPLAY: "", BROWSER: "" };
    const child = spawn(binary(), all, { stdio: ["ignore", "pipe", "pipe"], env });
    this.output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (part) => {
        this.output += part;
      });
    }
    child.exited = new Promise((done) => child.once("exit", done));
    child.once("exit", () => running.delete(child));
    running.add(child);
    this.process = child;
    while (!existsSync(file) || !(await readFile(file, "utf8")).endsWith("\n")) {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`esker ${all.join(" ")} ended:\n${this.output}`);
      await new Promise((resume) => setTimeout(resume, 50));
    }
    this.address = (await readFile(file, "utf8")).trim();
    return this;
  }

  /** URL of the server's root. */
  get url() {
    return `http://${this.address}`;
  }

  /** Ends the process, and waits for its end. */
  async kill(signal = "SIGKILL") {
    this.process.kill(signal);
    await this.process.exited;
  }
}

/** A server of one database folder. */
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

/** A tier of the site cache, with folders of this machine as origins. */
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

/** Ends all processes that this module started. */
export async function stop() {
  const children = [...running];
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(children.map((child) => child.exited));
}
