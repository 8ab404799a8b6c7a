#!/usr/bin/env python3
"""Lists the messages of the Rust crates by file, for a reviewer to read.

    scripts/messages.py                      # messages of errors, warnings and refusals
    scripts/messages.py crates/cli           # messages in the files below a path
    scripts/messages.py --all --tests PATH   # all strings of three words or more, including those of tests
    scripts/messages.py --grep 'is no \\w+'   # messages that match a regular expression
    scripts/messages.py --lines              # one message per line, as FILE:LINE: MESSAGE

A message says what happened, where, and what to do; its terms are those of docs/glossary.md. The script takes as a message a string literal of at
least three words with a name such as `Error`, `warn` or `expected` shortly before it. Help texts and generated code are omitted. Lines that end in
`\\` are joined, and repeated messages of a file are listed once.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# One of these words occurs within `REACH` characters before a message.
CONTEXT = re.compile(
    r"Error|usage|bail|anyhow|context|warn|note|fail|invalid|refus|Status|Err\(|error|damag|corrupt|expect|unavail|busy|\.text|why|reason|wrong|problem|said"
)
REACH = 160
NOT_MESSAGES = re.compile(r"after_help|long_about|println|writeln")
WORDS_MIN = 3

# The pattern also matches comments, characters and lifetimes, so that quotes in them do not start a string.
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?<!\w)(?:b|c)?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
      | (?:(?<!\w)[bc])?"(?P<plain>(?:\\.|[^"\\])*)"
      | (?:(?<!\w)b)?'(?:\\u\{[^}]*\}|\\x..|\\.|[^\\'\n])'
      | '[A-Za-z_]\w*""",
    re.VERBOSE | re.DOTALL,
)
JOIN = re.compile(r"\\\r?\n\s*")
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{")


def literals(text):
    """Yields the start, the end and the source of the inside of each string literal of a Rust file, and whether the literal is raw."""
    for token in TOKEN.finditer(text):
        for kind in ("raw", "plain"):
            if token[kind] is not None:
                yield token.start(kind), token.end(kind), token[kind], kind == "raw"


def without_comments(text):
    """Returns the text with its comments replaced by blanks, so that positions stay the same."""
    return TOKEN.sub(lambda token: re.sub(r"[^\n]", " ", token[0]) if token["comment"] else token[0], text)


def messages(text, every):
    """Yields the line and the text of each message of a Rust file."""
    code = without_comments(text)
    for start, _, inside, raw in literals(code):
        message = inside if raw else JOIN.sub("", inside)
        if len(message.split()) < WORDS_MIN:
            continue
        before = code[max(0, start - REACH) : start]
        if every or (CONTEXT.search(before) and not NOT_MESSAGES.search(before)):
            yield code.count("\n", 0, start) + 1, message.strip("\n")


def is_test(path):
    return bool({"tests", "benches", "bench", "examples", "fuzz"} & set(path.parts)) or path.name.endswith("tests.rs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: crates)")
    parser.add_argument("--all", action="store_true", help="list all strings of three words or more")
    parser.add_argument("--tests", action="store_true", help="include tests, benchmarks and examples")
    parser.add_argument("--grep", metavar="REGEX", type=re.compile, help="list only messages that match REGEX")
    parser.add_argument("--lines", action="store_true", help="print FILE:LINE: MESSAGE, including repeated messages")
    args = parser.parse_args()

    count = 0
    for top in [Path(p).resolve() for p in args.paths] or [ROOT / "crates"]:
        for path in [top] if top.is_file() else sorted(top.rglob("*.rs")):
            name = path.relative_to(ROOT)
            if "generated" in name.parts or (is_test(name) and not args.tests):
                continue
            text = path.read_text()
            if not args.tests and (tests := TESTS.search(text)):
                text = text[: tests.start()]
            found = [(n, m) for n, m in messages(text, args.all) if not args.grep or args.grep.search(m)]
            if args.lines:
                for line, message in found:
                    print(f"{name}:{line}: {message}")
            elif found:
                print(f"## {name}")
                for message in dict.fromkeys(message for _, message in found):
                    print(f"- {message}")
            count += len(found if args.lines else {message for _, message in found})
    print(f"{count} messages", file=sys.stderr)


if __name__ == "__main__":
    main()
