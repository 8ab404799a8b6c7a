// Data of the test databases: real Darshan logs, and a fictitious laboratory that is equal in each run. Esker's own commands import both.
import { mkdir, truncate, utimes, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { binary, command, esker } from "./server.mjs";

const LOGS = resolve(process.env.ESKER_DARSHAN_DIR ?? join(import.meta.dirname, "../../target/darshan"), "logs/darshan");

/** Folder of the example's files in Darshan's logs. */
export const DARSHAN = "/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph";
/** Number of tasks in the Slurm array. */
export const TASKS = 312;
/** Number of objects with tags. */
export const OBJECTS = 240;
/** Number of solutions of the large query. */
export const BIG = 1_000_000;

/** Returns a generator of pseudo-random numbers from 0 to 1, equal in each run (Marsaglia's xorshift). */
function pseudoRandom(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

/** Imports all logs of the darshan package. */
export async function darshan(database) {
  await esker("import", "darshan", database, LOGS);
}

/** Returns the time `n` seconds after the start of the laboratory's day. */
function timeAt(n) {
  return new Date(Date.UTC(2026, 2, 1, 8) + n * 1000).toISOString().slice(0, 19);
}

/** Returns Slurm accounting records: a mesh job, an array of simulations, jobs that gather and plot them, and a failed job. */
function accounting() {
  const head = "JobID|JobIDRaw|JobName|User|UID|Account|State|ExitCode|Submit|Start|End|NodeList|AllocTRES|WorkDir|SubmitLine";
  const job = (id, raw, name, user, uid, state, code, from, to, node, cpus) =>
    [
      id,
      raw,
      name,
      user,
      uid,
      "climate",
      state,
      code,
      timeAt(from - 60),
      timeAt(from),
      to === null ? "Unknown" : timeAt(to),
      node,
      `cpu=${cpus},mem=16G,node=1`,
      "/scratch/spring",
      `sbatch ${name}.sh`,
    ].join("|");
  const lines = [
    job("4000", "4000", "mesh", "ada", 1001, "COMPLETED", "0:0", 0, 540, "n001", 4),
    ...Array.from({ length: TASKS }, (_, n) =>
      job(
        `4100_${n}`,
        String(4100 + n),
        "simulate",
        "ada",
        1001,
        "COMPLETED",
        "0:0",
        600 + n,
        4200 + 3 * n,
        `n${String((n % 16) + 1).padStart(3, "0")}`,
        64,
      ),
    ),
    job("4500", "4500", "gather", "bob", 1002, "COMPLETED", "0:0", 6000, 6600, "n002", 16),
    job("4501", "4501", "plot", "bob", 1002, "COMPLETED", "0:0", 7000, 7030, "n003", 1),
    job("4502", "4502", "plot", "bob", 1002, "FAILED", "1:0", 7100, 7105, "n003", 1),
    job("4503", "4503", "gather", "bob", 1002, "COMPLETED", "0:0", 9000, 9700, "n004", 32),
    job("4504", "4504", "forecast", "carol", 1003, "RUNNING", "0:0", 9800, null, "n005", 128),
  ];
  return `${head}\n${lines.join("\n")}\n`;
}

const task = (n) => `/scratch/spring/parts/part-${String(n).padStart(4, "0")}.h5`;

/** Returns edges from jobs to the files they read and wrote. Two jobs write `merged.h5`, so that it has two versions. */
function jobFiles() {
  const rows = [];
  const edge = (job, type, path, second, bytes) =>
    rows.push({
      source: `job:${job}`,
      type,
      destination: `file:${path}`,
      version: `${timeAt(second)}Z`,
      properties: { bytes },
    });
  edge(4000, "read", "/projects/spring/coast.geojson", 10, 8_400_000);
  edge(4000, "write", "/scratch/spring/mesh.nc", 500, 2_100_000_000);
  for (let n = 0; n < TASKS; n++) {
    edge(4100 + n, "read", "/scratch/spring/mesh.nc", 610 + n, 2_100_000_000);
    edge(4100 + n, "read", "/projects/spring/forcing.nc", 611 + n, 750_000_000);
    edge(4100 + n, "write", task(n), 4100 + 3 * n, 320_000_000);
    edge(4500, "read", task(n), 6001 + n, 320_000_000);
  }
  edge(4500, "write", "/scratch/spring/merged.h5", 6590, 90_000_000_000);
  edge(4501, "read", "/scratch/spring/merged.h5", 7001, 4_000_000);
  edge(4501, "write", "/scratch/spring/figure-1.png", 7029, 310_000);
  edge(4502, "read", "/scratch/spring/merged.h5", 7101, 4_000_000);
  for (let n = 0; n < TASKS; n += 2) edge(4503, "read", task(n), 9001 + n, 320_000_000);
  edge(4503, "write", "/scratch/spring/merged.h5", 9690, 45_000_000_000);
  edge(4504, "read", "/scratch/spring/merged.h5", 9900, 45_000_000_000);
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

/** Returns attributes and tags of files and users. */
function files() {
  const rows = [
    { id: "file:/projects/spring/coast.geojson", size: 8_400_000, uid: 1001, user: { licence: "CC-BY-4.0" } },
    { id: "file:/projects/spring/forcing.nc", size: 750_000_000, uid: 1003 },
    { id: "file:/scratch/spring/mesh.nc", size: 2_100_000_000, uid: 1001 },
    { id: "file:/scratch/spring/merged.h5", size: 90_000_000_000, uid: 1002, user: { quality: "draft" } },
    { id: "file:/scratch/spring/figure-1.png", size: 310_000, uid: 1002 },
    { id: "user:1001", name: "ada", institution: "Institute of Hydrology" },
    { id: "user:1002", name: "bob" },
    { id: "user:1003", name: "carol" },
  ];
  return rows
    .map(({ id, user, ...attributes }) => `${JSON.stringify({ id, version: `${timeAt(-100)}Z`, attributes, user })}\n`)
    .join("");
}

/** Returns objects with tags of several types: integers, decimal numbers, texts and truth values. */
function objects() {
  const random = pseudoRandom(11);
  const rows = ["name,app,owner,step,location,campaign,energy,quality,reviewed"];
  for (let n = 0; n < OBJECTS; n++) {
    const app = n % 3 === 0 ? "vpic" : "flexpart";
    const energy = (random() * 8 + random() * 8).toFixed(3);
    rows.push(
      [
        n % 2 === 0 ? "energy" : "density",
        app,
        1001 + (n % 3),
        Math.floor(n / 2),
        `/scratch/${app}/${n}.h5`,
        ["spring", "summer", "autumn"][Math.floor(random() * 3)],
        energy,
        1 + Math.floor(random() * 5),
        n % 4 === 0,
      ].join(","),
    );
  }
  return `${rows.join("\n")}\n`;
}

/** Writes a tree of sparse files. */
export async function tree(root) {
  const random = pseudoRandom(23);
  const now = Date.UTC(2026, 0, 1) / 1000;
  for (const [folder, number, extension, size] of [
    ["ocean/raw", 60, "nc", 900_000_000],
    ["ocean/derived", 40, "h5", 200_000_000],
    ["ocean/figures", 25, "png", 2_000_000],
    ["atmosphere/raw", 80, "grib", 400_000_000],
    ["atmosphere/derived/monthly", 24, "nc", 90_000_000],
    ["code/src", 30, "f90", 60_000],
    ["code/notebooks", 12, "ipynb", 900_000],
  ]) {
    await mkdir(join(root, folder), { recursive: true });
    for (let n = 0; n < number; n++) {
      const path = join(root, folder, `${folder.split("/").at(-1)}-${String(n).padStart(3, "0")}.${extension}`);
      await writeFile(path, "");
      await truncate(path, Math.floor(size * (0.2 + 0.8 * random())));
      await utimes(path, now, now - Math.floor(random() * 400) * 86_400);
    }
  }
}

const TURTLE = `@prefix ex: <http://lab.example/> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:buoy-7 a ex:Instrument ; rdfs:label "Buoy 7"@en, "Boje 7"@de ; ex:depth 12.5 .
ex:buoy-9 a ex:Instrument ; rdfs:label "Buoy 9"@en ; ex:depth 40 .
ex:salinity-2026 a prov:Entity ; prov:wasDerivedFrom ex:raw-2026 ; ex:measuredBy ex:buoy-7, ex:buoy-9 .
ex:raw-2026 a prov:Entity ; prov:wasAttributedTo ex:ada .
ex:ada a prov:Agent ; rdfs:label "Ada" .
`;

/** Imports the laboratory into a database, which may have other data. */
export async function lab(database, scratch) {
  const file = (name) => join(scratch, `lab-${name}`);
  await writeFile(file("sacct.txt"), accounting());
  await writeFile(file("files.ndjson"), files());
  await writeFile(file("used.ndjson"), jobFiles());
  await writeFile(file("objects.csv"), objects());
  await writeFile(file("instruments.ttl"), TURTLE);
  await esker("import", "sacct", database, file("sacct.txt"), "--zone", "UTC");
  await esker("import", "vertices", database, file("files.ndjson"));
  await esker("import", "edges", database, file("used.ndjson"));
  await esker("set", database, "file:/scratch/spring/merged.h5", "quality=final");
  await esker("object", "import", database, file("objects.csv"), "--id", "name,app,owner,step");
  await esker("tag", "add", database, "--where", "campaign = 'spring' AND energy > 10", "hot");
  await esker("rdf", "load", database, file("instruments.ttl"));
  await tree(join(scratch, "project"));
  await esker("import", "tree", database, join(scratch, "project"), "--as-path", "/project");
  await runs(database, scratch);
}

/** Two real runs of one program that differ by a setting, and one that fails. */
async function runs(database, scratch) {
  const input = join(scratch, "salinity.csv");
  await writeFile(input, "depth,psu\n1,34.9\n2,35.1\n");
  const env = { ...process.env, ESKER_SPOOL: join(scratch, "spool"), ESKER_TARGET: database };
  const record = (name, options, script) =>
    command(binary(), ["run", "--wait", "--name", name, "--in", input, ...options, "--", "sh", "-c", script], {
      env,
      cwd: dirname(input),
    });
  for (const window of [5, 9]) {
    const output = join(scratch, `smooth-${window}.csv`);
    await record(
      "smooth",
      ["--param", `window=${window}`, "--param", "method=median", "--out", output],
      `cat ${input} > ${output}`,
    );
  }
  await record("smooth-badly", ["--param", "window=-1"], "echo no such window >&2; exit 3").catch((e) => {
    if (!/: 3\n/.test(e.message)) throw e;
  });
}

/** Loads a thousand triples, whose pairs are a million solutions. */
export async function big(database, scratch) {
  const lines = Array.from(
    { length: Math.sqrt(BIG) },
    (_, n) => `<http://lab.example/sample/${n}> <http://lab.example/depth> ${n} .\n`,
  );
  const file = join(scratch, "big.ttl");
  await writeFile(file, lines.join(""));
  await esker("rdf", "load", database, file);
}
