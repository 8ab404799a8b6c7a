"""Checks that an AppArmor profile allows every file that a traced server has used.

Usage: apparmor.py PROFILE TRACE FROM=TO…

PROFILE is the output of `apparmor_parser --preprocess`, TRACE that of `strace -f -y`. Paths that begin with FROM stand for paths that begin with TO.
Calls that failed, and O_PATH, which AppArmor does not check, do not count.
"""

from __future__ import annotations

import itertools
import pathlib
import re
import sys

RULE = re.compile(r"^\s*(?:owner\s+)?([/@][^\s,]*(?:,[^\s,]+)*)\s+([rwaklmix]+),", re.M)
OPEN = re.compile(r'\bopenat\((?:AT_FDCWD|\d+)<[^>]*>, "[^"]*", (\S+?)[,)].* = \d+<([^>]*)>')
CHANGE = re.compile(r"\b(mkdir|mkdirat|unlink|unlinkat|rename|renameat|renameat2|link|linkat|bind)\((.*)\) += 0$")
PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?(?:sun_path=)?"([^"]+)"')


def variables(text: str) -> dict[str, list[str]]:
    found = re.findall(r"^@\{(\w+)\}\s*\+?=\s*(.*)$", text, re.M)
    return {name: [value.strip('"') for value in values.split()] for name, values in found}


def expand(pattern: str, known: dict[str, list[str]]) -> list[str]:
    """Replaces the variables of a pattern by each of their values."""
    name = re.search(r"@\{(\w+)\}", pattern)
    if not name:
        return [pattern.replace("//", "/")]
    return list(itertools.chain.from_iterable(expand(pattern.replace(name[0], value, 1), known) for value in known.get(name[1], [])))


def expression(pattern: str) -> str:
    """Returns the regular expression of a pattern: `*` matches within a folder, `**` over folders, `{a,b}` one of several."""
    out, depth = "", 0
    for token in re.findall(r"\*\*|\[[^\]]*\]|\\.|.", pattern):
        if token in "{},":
            depth += {"{": 1, "}": -1, ",": 0}[token]
            out += {"{": "(?:", "}": ")", ",": "|" if depth else ","}[token]
        else:
            out += {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(token, token if token[0] in "[\\" else re.escape(token))
    return out


def used(trace: str) -> set[tuple[str, str]]:
    """Returns the files of a trace, each with a permission that it needs."""
    out = set()
    for line in trace.splitlines():
        if (opened := OPEN.search(line)) and "O_PATH" not in opened[1]:
            path = opened[2] + ("/" if "O_DIRECTORY" in opened[1] and not opened[2].endswith("/") else "")
            needs = "rw" if "O_RDWR" in opened[1] else "w" if "O_WRONLY" in opened[1] else "r"
            out |= {(path, permission) for permission in needs}
        elif change := CHANGE.search(line):
            for folder, name in PATH.findall(change[2]):
                path = str(pathlib.PurePosixPath(folder, name))
                out.add((path + "/" * change[1].startswith("mkdir"), "w"))
    return out


def main(profile: str, trace: str, places: list[str]) -> int:
    text = pathlib.Path(profile).read_text()
    known = variables(text)
    rules = [(re.compile(expression(one)), permissions) for pattern, permissions in RULE.findall(text) for one in expand(pattern, known)]
    files = used(pathlib.Path(trace).read_text())
    missing = []
    for path, permission in sorted(files):
        for place in places:
            before, _, after = place.partition("=")
            if path == before or path.startswith(before + "/"):
                path = after + path[len(before) :]
        if path.startswith("/") and not any(permission in permissions and rule.fullmatch(path) for rule, permissions in rules):
            missing.append(f"{path} {permission}")
    for line in missing:
        print(f"packaging: the AppArmor profile does not allow {line}", file=sys.stderr)
    if len(files) < 20:
        sys.exit(f"packaging: the trace has only {len(files)} files")
    if not missing:
        print(f"packaging: the AppArmor profile compiles, and its {len(rules)} rules of files allow the {len(files)} uses of files by a server")
    return 1 if missing else 0


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
