// What is copied names the database.
import { expect, test } from "vitest";
import { named, type Session, targetOf } from "./session";

const session = (how: Session["how"], target: string): Session => ({
  who: "user 0",
  role: "admin",
  how,
  server: { version: "0.1.0", target, kind: "folder", pid: 1 },
});

test("a folder is named where its own user looks, else the server", () => {
  expect(targetOf(session("process", "/lab dbs/a"), "127.0.0.1:7400")).toBe("/lab dbs/a");
  expect(targetOf(session("session", "/a"), "lab:7400")).toBe("esker://lab:7400");
  expect(targetOf(session("key", "esker://lab:7400"), "127.0.0.1:3333")).toBe("esker://lab:7400");
  expect(targetOf(null, "lab:7400")).toBe("esker://lab:7400");
});

test("T becomes the target, and only where it stands for it", () => {
  expect(named("CLI", "esker lineage T file:/T", "/lab dbs/a")).toBe("esker lineage '/lab dbs/a' file:/T");
  expect(named("CLI", "esker stats T && esker log T", "/a")).toBe("esker stats /a && esker log /a");
  expect(named("CLI", "esker object create T --name x", "/a")).toBe("esker object create /a --name x");
  expect(named("CLI", "esker find T 'a T b'", "/a$&b")).toBe("esker find '/a$&b' 'a T b'");
  expect(named("Travel", 'v("T")', "/a")).toBe('v("T")');
  expect(named("Python", "db.counts()", "/a")).toBe('import esker\ndb = esker.open("/a")\ndb.counts()');
});
