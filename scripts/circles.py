#!/usr/bin/env python3
"""Counts the Rust files of each crate that depend on each other in circles.

    scripts/circles.py            # a table by crate
    scripts/circles.py CRATE...   # and the files of each circle
    scripts/circles.py --check    # the exit code is 1 if a crate has more files in circles than LIMITS allows

A file depends on another if it names an item of it: in a `use` line, or by a path that begins with `crate::`, `super::` or `self::`. An item that a
module only re-exports belongs to the file that defines it. `mod` lines and tests do not count. A circle is a strongly connected component of at
least two files.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Files in circles, by crate. A change that opens a circle lowers the number; none raises one.
LIMITS = {
    "access": 2,
    "bench": 18,
    "cli": 19,
    "cluster": 14,
    "console": 2,
    "engine": 16,
    "esker": 25,
    "etcd": 2,
    "import": 16,
    "lineage": 2,
    "model": 17,
    "mount": 7,
    "origin": 11,
    "preload": 3,
    "python": 5,
    "rdf": 17,
    "rdf-workers": 2,
    "record": 5,
    "rpc": 10,
    "server": 41,
    "site": 4,
    "site-cache": 3,
    "testkit": 10,
}

COMMENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/")
STRING = re.compile(r'b?r(#+)"[\s\S]*?"\1|"(?:\\[\s\S]|[^"\\])*"')
USE = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
PATH = re.compile(r"\b((?:crate|super|self)(?:::\w+)+)")
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod\s+\w+\s*\{")


def expand(tree: str) -> list[tuple[str, str]]:
    """Returns the paths of a `use` tree, each with the name that it gets."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, name = tree.partition(" as ")
        path = re.sub(r"\s+", "", path)
        return [(path, name.strip() or path.rsplit("::", 1)[-1])] if path else []
    prefix, inner, depth, start, paths = tree[:brace], tree[brace + 1 : tree.rindex("}")], 0, 0, []
    for at, character in enumerate(inner + ","):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            paths += [(re.sub(r"\s+", "", prefix) + path, name) for path, name in expand(inner[start:at])]
            start = at + 1
    return paths


def without_inline_tests(text: str) -> str:
    """Removes `#[cfg(test)] mod … { … }`."""
    while found := TESTS.search(text):
        depth, at = 1, found.end()
        while at < len(text) and depth:
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        text = text[: found.start()] + text[at:]
    return text


class Crate:
    """The modules of a crate and the files that they depend on."""

    def __init__(self, source: Path) -> None:
        self.files: dict[tuple[str, ...], Path] = {}
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            if parts[0] == "bin" or any(part in ("tests", "test_data", "generated") for part in parts):
                continue
            if parts[-1] in ("lib", "main", "mod"):
                parts = parts[:-1]
            self.files[parts] = path
        self.text = {
            module: without_inline_tests(STRING.sub('""', COMMENT.sub("", path.read_text()))) for module, path in self.files.items()
        }
        self.exports = {module: self.exported(module) for module in self.files}

    def exported(self, module: tuple[str, ...]) -> dict[str, str]:
        """Returns the names that a module re-exports, with their paths."""
        uses = USE.findall(self.text[module])
        return {name: path for public, tree in uses if public for path, name in expand(tree)}

    def absolute(self, module: tuple[str, ...], path: str) -> tuple[str, ...] | None:
        """Returns a path's segments from the root of the crate; `None` for other crates."""
        segments = path.split("::")
        if segments[0] == "crate":
            return tuple(segments[1:])
        base = module
        if segments[0] == "self":
            segments = segments[1:]
        elif segments[0] != "super" and (*module, segments[0]) not in self.files:
            return None
        while segments and segments[0] == "super":
            base, segments = base[:-1], segments[1:]
        return (*base, *segments)

    def target(self, path: tuple[str, ...], depth: int = 8) -> tuple[str, ...] | None:
        """Returns the module that defines an item."""
        for length in range(len(path), -1, -1):
            module = path[:length]
            if module not in self.files:
                continue
            if length < len(path) and depth and (exported := self.exports[module].get(path[length])):
                further = self.absolute(module, exported)
                if further is not None:
                    return self.target(further + path[length + 1 :], depth - 1)
            return module
        return None

    def dependencies(self, module: tuple[str, ...]) -> set[tuple[str, ...]]:
        """Returns the modules whose items a module names, except those that it only re-exports."""
        text = self.text[module]
        paths = [path for public, tree in USE.findall(text) if not public for path, _ in expand(tree)]
        paths += PATH.findall(USE.sub("", text))
        absolute = (self.absolute(module, path) for path in paths)
        targets = {self.target(path) for path in absolute if path is not None}
        return {target for target in targets if target is not None and target != module}

    def circles(self) -> list[list[tuple[str, ...]]]:
        """Returns the strongly connected components of two files and more, the largest first (Tarjan's algorithm)."""
        graph = {module: self.dependencies(module) for module in self.files}
        index: dict[tuple[str, ...], int] = {}
        low: dict[tuple[str, ...], int] = {}
        stack: list[tuple[str, ...]] = []
        components = []

        def visit(module: tuple[str, ...]) -> None:
            index[module] = low[module] = len(index)
            stack.append(module)
            for other in graph[module]:
                if other not in index:
                    visit(other)
                    low[module] = min(low[module], low[other])
                elif other in stack:
                    low[module] = min(low[module], index[other])
            if low[module] == index[module]:
                at = stack.index(module)
                components.append(stack[at:])
                del stack[at:]

        for module in graph:
            if module not in index:
                visit(module)
        return sorted((c for c in components if len(c) > 1), key=len, reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crates", nargs="*", help="crates whose circles are listed")
    parser.add_argument("--check", action="store_true", help="fail if a number is above its limit")
    args = parser.parse_args()
    sys.setrecursionlimit(10_000)
    status = 0
    if not args.check:
        print(f"{'crate':14} {'files':>6} {'in circles':>11} {'circles':>8} {'largest':>8}")
    for source in sorted(ROOT.glob("crates/*/src")):
        name = source.parent.name
        if args.crates and name not in args.crates:
            continue
        crate = Crate(source)
        circles = crate.circles()
        count = sum(map(len, circles))
        if args.check:
            limit = LIMITS.get(name, 0)
            if count > limit:
                print(f"crates/{name}: {count} files depend on each other in circles; the limit is {limit} (scripts/circles.py {name} lists them)")
                status = 1
            elif count < limit:
                print(f"crates/{name}: {count} files are in circles: lower the limit in scripts/circles.py from {limit}")
                status = 1
            continue
        print(f"{name:14} {len(crate.files):6} {count:11} {len(circles):8} {max(map(len, circles), default=0):8}")
        for circle in circles if args.crates else []:
            print("  " + " ".join(sorted("::".join(module) or "(root)" for module in circle)))
    return status


sys.exit(main())
