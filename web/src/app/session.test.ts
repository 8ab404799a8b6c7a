// Targets in copied commands and programs.
import { expect, test } from "vitest";
import { proofOf, type Session, targetOf, withTarget } from "./session";

const session = (how: Session["how"], target: string): Session => ({
  who: "user 0",
  role: "admin",
  how,
  user: null,
  name: null,
  server: { version: "0.1.0", target, kind: "folder", pid: 1 },
});

test("the target is the folder for its owner on the server's machine, and the server's address otherwise", () => {
  expect(targetOf(session("process", "/lab dbs/a"), "127.0.0.1:7400")).toBe("/lab dbs/a");
  expect(targetOf(session("session", "/a"), "lab:7400")).toBe("esker://lab:7400");
  expect(targetOf(session("key", "esker://lab:7400"), "127.0.0.1:3333")).toBe("esker://lab:7400");
  expect(targetOf(null, "lab:7400")).toBe("esker://lab:7400");
});

test("the proof of the user is named", () => {
  expect(proofOf(session("oidc", "/a"))).toBe("Logged in by a provider");
  expect(proofOf(session("process", "/a"))).toBe("User of this machine");
});

test("T is replaced only where a command expects the target", () => {
  expect(withTarget("CLI", "esker lineage T file:/T", "/lab dbs/a")).toBe("esker lineage '/lab dbs/a' file:/T");
  expect(withTarget("CLI", "esker stats T && esker log T", "/a")).toBe("esker stats /a && esker log /a");
  expect(withTarget("CLI", "esker object create T --name x", "/a")).toBe("esker object create /a --name x");
  expect(withTarget("CLI", "esker find T 'a T b'", "/a$&b")).toBe("esker find '/a$&b' 'a T b'");
  expect(withTarget("Travel", 'v("T")', "/a")).toBe('v("T")');
  expect(withTarget("Python", "db.counts()", "/a")).toBe('import esker\ndb = esker.open("/a")\ndb.counts()');
});
