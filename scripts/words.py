#!/usr/bin/env python3
"""Checks that names, comments and documents use the field's own words (docs/glossary.md).

    scripts/words.py           # findings everywhere; the exit code is 1 if there are any
    scripts/words.py PATH...   # findings below these paths

Rules for Rust: no name from the private vocabulary of earlier versions, or from the last column of docs/glossary.md (`name`); a type's name at most once in a crate (`twice`); a public
item's comment has at least four words (`short`); a comment begins with a noun or a verb (`opening`) and has none of the private phrases
(`phrase`); messages have none either (`message`). Rules for Python, shell, TOML, Makefile, TypeScript, JavaScript, Java and C:
`opening` and `phrase` for each paragraph of a comment or docstring, and `name` for functions and classes of Python and shell. Rules for README,
docs and other pages: sentences of at most 40 words (`long`), none of the phrases (`phrase`), headings that are nouns or questions (`heading`).
"""

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

GLOSSARY = ROOT / "docs" / "glossary.md"
# These names say too little as the whole name of a module, type, trait or function. `main` adds the words of the glossary's last column.
NAMES = set(
    """again ahead alone apart arrive ask asked below beside beyond carry door ear elsewhere facade far fire fresh give given hold held here house known
    late lately liar life moments once other others place placed places play promise promised room rooms seat seats seen shown sides sight
    spare spread staged there together troubles wanted weather what which who whoever whole whom whose words world""".split()
)
# These words say too little as one word of a longer name.
PARTS = set("apart beside door house lately liar promise promised promises seat seats sight spread weather whoever whom whose".split())
# These words of the glossary's last column name other things in the code.
OTHER_MEANINGS = set("above answer backup claim column home node process row server travel walk watch".split())
# Other projects have given these names.
KNOWN_AS = {"OnceLock", "OnceCell", "LazyLock"}
# The Python package has published the name `ask`.
ALLOWED = {
    "crates/python/src/remote.rs": {"ask"},
    "python/src/esker/_esker.pyi": {"ask"},
    # The end of a channel, named as in the standard library.
    "crates/testkit/src/sim/exec.rs": {"Sender"},
}

OPENING = re.compile(
    r"(Who|Whoever|Whose|Whom|What|Whatever|Which|Whichever|How|Where|Wherever|The same|The other|The others|So (many|much|long|often|far)|"
    r"Of|(From|By|In|To|For|With|At|On|Behind|Under|Of) (which|what|whom|whose|where|whoever)|Not |Nothing|Nobody|Somebody|Something|Likewise|Also|Such)\b"
)
PHRASE = re.compile(r"\b(whoever|whomever|(so|as) it is had|is had|are had|was had|to be had|holds of|hold of|held of|is none|are none|tells of|told of|it were|so many|so much of)\b", re.I)
ITEM = re.compile(
    r"^\s*(?P<pub>pub(\([^)]*\))?\s+)?(default\s+)?(unsafe\s+)?(async\s+)?(const\s+)?(extern\s+\"C\"\s+)?(?P<kind>fn|struct|enum|union|trait|type|mod|static|const)\s+(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
)
FIELD = re.compile(r"^\s*pub(\([^)]*\))?\s+(?P<name>[a-z_][a-z0-9_]*)\s*:")

# Error texts and other messages must not have these phrases either.
MESSAGE = re.compile(
    r"(?<!there )(?<!There )\b(is|are) no (?!(longer|more|less|later|earlier|need|use|room|space|other|one|such)\b)[a-z`{]|\b(goes on wrong|nobody has|it is to lie|does not go with|is to be had|of its own choice)\b"
)
STRING = re.compile(r'b?r#+"[\s\S]*?"#+|"(?:\\[\s\S]|[^"\\])*"')


# Python files and programs that begin with `#!` have comments after `#`, too.
HASH_FILES = {".sh", ".toml", ".sbatch", ".service", ".def", ".cwl", ".yml", ".yaml", "Makefile", ".gitignore"}
SLASH_FILES = {".ts", ".tsx", ".mjs", ".js", ".java", ".c", ".h"}
# A pragma such as `#SBATCH` has no blank after the sign, and does not match.
HASH = re.compile(r"(?:^|\s)#+(?:\s+(?P<text>.*)|$)")
SLASH = re.compile(r"(?:^|(?<=[\s{(;,]))(?://+[ \t](?P<line>.*)|/\*+(?P<block>\s[\s\S]*?)\*/)", re.M)
FUNCTION = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)|^(\w+)\(\) *[{(]")
NOT_OURS = ("crates/console/dist", "fuzz/seeds", "testdata", "web/src/api/schema.ts")


class Finding:
    def __init__(self, rule, path, line, text):
        self.rule, self.path, self.line, self.text = rule, path, line, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def former_terms(glossary):
    """Returns the single words in the last column of the glossary: words that are not terms."""
    rows = [re.sub(r"\([^)]*\)", "", line).strip("| ").split("|") for line in glossary.splitlines() if line.count("|") == 5]
    cells = ", ".join(row[3] for row in rows if len(row) == 4 and row[0].strip() != "term")
    return {word for cell in cells.split(",") if re.fullmatch(r"[a-z]+", word := cell.strip())}


def words_of(name):
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)]


def bad_name(name):
    if name in KNOWN_AS:
        return False
    words = words_of(name)
    return "".join(words) in NAMES or any(w in PARTS for w in words)


def rust(path, text, types):
    """Findings in one file of Rust; `types` gathers the definitions of types by crate."""
    where = path.relative_to(ROOT)
    stem = path.parent.name if path.stem == "mod" else path.stem
    if bad_name(stem):
        yield Finding("name", where, 1, f"module `{stem}`")
    block, block_at = [], 0
    for n, line in enumerate(text.splitlines(), 1):
        comment = re.match(r"^\s*(///|//!|//)(?!/)\s?(.*)$", line)
        if comment:
            if not block:
                block_at = n
                if m := OPENING.match(comment[2].strip()):
                    yield Finding("opening", where, n, f"`{m[0]}`: {comment[2].strip()[:90]}")
            block.append(comment[2])
            if m := PHRASE.search(comment[2]):
                yield Finding("phrase", where, n, f"`{m[0]}`: {comment[2].strip()[:90]}")
            continue
        if re.match(r"^\s*#!?\[", line) and block:
            continue
        item = ITEM.match(line)
        field = FIELD.match(line)
        if block and ((item and item["pub"]) or field):
            count = len(re.findall(r"[\w`'.:/-]+", " ".join(block)))
            if count < 4:
                yield Finding("short", where, block_at, " ".join(block).strip())
        block = []
        if item and item["kind"] != "mod" and not (item["kind"] in ("const", "static") and not item["pub"]):
            if bad_name(item["name"]) and item["name"] not in ALLOWED.get(str(where), ()):
                yield Finding("name", where, n, f"{item['kind']} `{item['name']}`")
            indent = len(line) - len(line.lstrip())
            if item["kind"] in ("struct", "enum", "trait", "type", "union") and indent == 0:
                types[where.parts[1]][item["name"]].append((where, n))
        elif item and item["kind"] == "mod" and line.rstrip().endswith("{") and bad_name(item["name"]):
            yield Finding("name", where, n, f"mod `{item['name']}`")


def messages(path, text):
    """Findings in the string literals of one file of Rust, its tests left out."""
    where = path.relative_to(ROOT)
    code = re.split(r"#\[cfg\(test\)\]\s*mod tests", text)[0]
    code = re.sub(r"(?m)^\s*//.*$", lambda m: " " * len(m[0]), code)
    for m in STRING.finditer(code):
        literal = re.sub(r"\\\n\s*", "", m[0])
        if len(literal.split()) >= 3 and (bad := PHRASE.search(literal) or MESSAGE.search(literal)):
            yield Finding("message", where, code.count("\n", 0, m.start()) + 1, f"`{bad[0]}`: {literal[:90]}")


def python_comments(text):
    """Comment lines of a Python file, and lines of docstrings; see `comments_of`."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (m := HASH.match(token.string)):
            yield token.start[0], (m["text"] or "").strip(), token.line.strip() == token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for n, line in enumerate(node.value.value.splitlines(), node.lineno):
                yield n, line.strip(), True


def hash_comments(text):
    """Comment lines of a file with `#`; see `comments_of`."""
    for n, line in enumerate(text.splitlines(), 1):
        if m := HASH.search(line):
            yield n, (m["text"] or "").strip(), not line[: m.start()].strip()


def slash_comments(text):
    """Comment lines of a file with `//` and `/* */`; see `comments_of`."""
    for m in SLASH.finditer(text):
        n = text.count("\n", 0, m.start()) + 1
        code = text[text.rfind("\n", 0, m.start()) + 1 : m.start()].strip(" \t{")
        for i, line in enumerate((m["line"] if m["block"] is None else m["block"]).splitlines()):
            yield n + i, line.strip().lstrip("*").strip(), i > 0 or not code


def comments_of(path, text):
    """Yields line number, text, and whether no code is on the line, for each line of the comments of a file."""
    if path.suffix in (".py", ".pyi"):
        return python_comments(text)
    if {path.suffix, path.name} & HASH_FILES or (not path.suffix and text.startswith("#!")):
        return hash_comments(text)
    return slash_comments(text) if path.suffix in SLASH_FILES else ()


def comments(path, text):
    """Findings in the comments of one file that is not Rust, and in names of functions of Python and shell."""
    where = path.relative_to(ROOT)
    last = None
    for n, line, alone in comments_of(path, text):
        starts = not alone or last != n - 1
        if starts and (m := OPENING.match(line[:1].upper() + line[1:])):
            yield Finding("opening", where, n, f"`{m[0]}`: {line[:90]}")
        if m := PHRASE.search(line):
            yield Finding("phrase", where, n, f"`{m[0]}`: {line[:90]}")
        last = n if alone and line else None
    for n, line in enumerate(text.splitlines() if path.suffix in (".py", ".pyi", ".sh") else (), 1):
        if (m := FUNCTION.match(line)) and bad_name(name := m[1] or m[2]) and name not in ALLOWED.get(str(where), ()):
            yield Finding("name", where, n, f"function or class `{name}`")


def prose(path, text):
    where = path.relative_to(ROOT)
    fence = False
    paragraph, at = [], 0

    def flush():
        if not paragraph:
            return
        whole = " ".join(paragraph)
        whole = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", whole)
        whole = re.sub(r"`[^`]*`", "code", whole)
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[(])|: (?=[A-Z])", whole):
            count = len(re.findall(r"[\w'/-]+", sentence))
            if count > 40:
                yield Finding("long", where, at, f"{count} words: {sentence[:80]}…")

    for n, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```") or line.startswith("<!--") and "-->" not in line:
            yield from flush()
            paragraph, fence = [], not fence
            continue
        if fence and line.strip().endswith("-->"):
            fence = False
            continue
        if fence or line.startswith("|") or line.startswith("<!--"):
            continue
        if line.startswith("#"):
            yield from flush()
            paragraph = []
            heading = line.lstrip("# ")
            if OPENING.match(heading) and not heading.endswith("?"):
                yield Finding("heading", where, n, heading)
            continue
        if not line.strip() or re.match(r"^\s*([-*]|\d+\.)\s", line):
            yield from flush()
            paragraph = []
            at = n
        if line.strip():
            if not paragraph:
                at = n
            paragraph.append(line.strip())
        if m := PHRASE.search(line):
            yield Finding("phrase", where, n, f"`{m[0]}`: {line.strip()[:90]}")
    yield from flush()


def repeated_types(types):
    """Types of one name in the sources of one crate, all but the first."""
    for names in types.values():
        for name, places in names.items():
            first, *others = [p for p in places if p[0].parts[2] == "src"] or [None]
            for where, line in others:
                yield Finding("twice", where, line, f"`{name}` is also {first[0]}:{first[1]}")


def checkout():
    """Returns the files of this checkout that people write, including files that git does not track yet."""
    call = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = {os.fsdecode(name) for name in subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.split(b"\0")}
    return [path for name in sorted(names) if not name.startswith(NOT_OURS) and (path := ROOT / name).is_file()]


def find(below):
    types = defaultdict(lambda: defaultdict(list))
    for path in sorted([*(ROOT / "crates").rglob("*.rs"), *(ROOT / "fuzz" / "src").rglob("*.rs")]):
        if "generated" in path.parts:
            continue
        text = path.read_text()
        found = list(rust(path, text, types))
        if "src" in path.parts and path.stem != "tests":
            found += messages(path, text)
        if not below or any(path.is_relative_to(b) for b in below):
            yield from found
    for finding in repeated_types(types):
        if not below or any((ROOT / finding.path).is_relative_to(b) for b in below):
            yield finding
    for path in checkout():
        if not below or any(path.is_relative_to(b) for b in below):
            if path.suffix == ".md" and path.name != "CHANGELOG.md":
                yield from prose(path, path.read_text())
            yield from comments(path, path.read_text(errors="replace"))


def check_rules():
    """Each rule finds its example, and a plain file has no finding."""
    path = ROOT / "crates" / "x" / "src" / "again.rs"
    bad = 'pub struct Held;\n/// Which.\npub fn one() {}\n/// Whoever asks.\nfn f() {}\n/// What is told of so many.\nfn g() { fail("`{}` is no number at all") }\n'
    types = defaultdict(lambda: defaultdict(list))
    rules = {f.rule for f in [*rust(path, bad, types), *messages(path, bad), *rust(path.with_name("b.rs"), bad, types), *repeated_types(types)]}
    assert rules == {"name", "short", "opening", "phrase", "message", "twice"}, rules
    page = "# Who sees what\n\n" + "word " * 41 + "end.\n\nIt holds of whoever asks.\n"
    assert {f.rule for f in prose(ROOT / "README.md", page)} == {"heading", "long", "phrase"}
    good = '/// Returns the number of rows in the table.\npub fn count() { fail("`{}` is not a number") }\n'
    plain = ROOT / "crates" / "x" / "src" / "table.rs"
    assert not [*rust(plain, good, defaultdict(lambda: defaultdict(list))), *messages(plain, good)]
    for name, text, expected in (
        ("x.py", '#!/usr/bin/env python3\n# Nothing is kept.\ndef held():\n    """Returns `a`.\n\n    Whoever asks.\n    """\n', "opening phrase opening name"),
        ("x.sh", "# shellcheck disable=SC2086\nseen() { :; } # of which some\n\n# A list\n# Which goes on.\n# is to be had\n", "opening phrase name"),
        ("run", "#!/bin/sh\n# So many processes.\n#SBATCH --nodes=2\n", "opening phrase"),
        ("Makefile", "all: ## what is built\n", "opening"),
        ("x.toml", 'a = "b" # not used # here\n', "opening"),
        ("x.tsx", 'const a = "http://x"; // as before\n// Also.\n// \n// The other.\n/**\n * Such a page.\n * Not seen.\n */\n{/* told of */}\n', "opening opening opening phrase"),
        ("x.json", "# Which.\n", ""),
    ):
        found = Counter(f.rule for f in comments(ROOT / "scripts" / name, text))
        assert found == Counter(expected.split()), (name, found)


def main():
    former = former_terms(GLOSSARY.read_text())
    assert former > OTHER_MEANINGS and {"asker", "told"} < former, OTHER_MEANINGS - former
    NAMES.update(former - OTHER_MEANINGS)
    check_rules()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=lambda p: Path(p).resolve())
    found = list(find(parser.parse_args().paths))
    for finding in found:
        print(finding)
    if found:
        print(", ".join(f"{count} × {rule}" for rule, count in Counter(f.rule for f in found).most_common()), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
