#!/usr/bin/env python3
"""Checks that names, comments and documents use the field's own words (docs/glossary.md).

    scripts/words.py           # findings everywhere; the exit code is 1 if there are any
    scripts/words.py PATH...   # findings below these paths

Rules for Rust: no name from the private vocabulary of earlier versions (`name`); a type's name at most once in a crate (`twice`); a public
item's comment has at least four words (`short`); a comment begins with a noun or a verb (`opening`) and has none of the private phrases
(`phrase`); messages have none either (`message`). Rules for README, docs and other pages: sentences of at most 40 words (`long`), none of the phrases (`phrase`), headings that
are nouns or questions (`heading`).
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Names that say nothing about what they name, as a whole name of a module, type, trait or function.
NAMES = set(
    """again ahead alone apart arrive ask asked below beside beyond carry door elsewhere facade far fire fresh give given hold held here house known
    late lately liar life moments once other others place placed places play promise promised room rooms seat seats seen shown sides sight
    spare spread staged there together wanted weather what which who whoever whole whom whose words world""".split()
)
# The same as one word of a longer name.
PARTS = set("apart beside door house lately liar promise promised promises seat seats sight spread weather whoever whom whose".split())
# Names that others have given.
KNOWN_AS = {"OnceLock", "OnceCell", "LazyLock"}
# A public name of Python's package.
ALLOWED = {"crates/python/src/remote.rs": {"ask"}}

OPENING = re.compile(
    r"(Who|Whoever|Whose|Whom|What|Whatever|Which|Whichever|How|Where|Wherever|The same|The other|The others|So (many|much|long|often|far)|"
    r"Of|(From|By|In|To|For|With|At|On|Behind|Under|Of) (which|what|whom|whose|where|whoever)|Not |Nothing|Nobody|Somebody|Something|Likewise|Also|Such)\b"
)
PHRASE = re.compile(r"\b(whoever|whomever|(so|as) it is had|is had|are had|was had|to be had|holds of|hold of|held of|is none|are none|tells of|told of|it were|so many|so much of)\b", re.I)
ITEM = re.compile(
    r"^\s*(?P<pub>pub(\([^)]*\))?\s+)?(default\s+)?(unsafe\s+)?(async\s+)?(const\s+)?(extern\s+\"C\"\s+)?(?P<kind>fn|struct|enum|union|trait|type|mod|static|const)\s+(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
)
FIELD = re.compile(r"^\s*pub(\([^)]*\))?\s+(?P<name>[a-z_][a-z0-9_]*)\s*:")


# In error texts and other messages, beside the phrases above.
MESSAGE = re.compile(
    r"(?<!there )(?<!There )\b(is|are) no (?!(longer|more|less|later|earlier|need|use|room|space|other|one|such)\b)[a-z`{]|\b(goes on wrong|nobody has|it is to lie|does not go with|is to be had|of its own choice)\b"
)
STRING = re.compile(r'b?r#+"[\s\S]*?"#+|"(?:\\[\s\S]|[^"\\])*"')


class Finding:
    def __init__(self, rule, path, line, text):
        self.rule, self.path, self.line, self.text = rule, path, line, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


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


def find(below):
    types = defaultdict(lambda: defaultdict(list))
    for path in sorted([*(ROOT / "crates").rglob("*.rs"), *(ROOT / "fuzz" / "src").rglob("*.rs")]):
        if "generated" in path.parts or path.name == "worker.py":
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
    documents = [p for p in ROOT.glob("*.md")] + sorted((ROOT / "docs").rglob("*.md"))
    for path in documents:
        if path.name == "CHANGELOG.md":
            continue
        if not below or any(path.is_relative_to(b) for b in below):
            yield from prose(path, path.read_text())


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


def main():
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
