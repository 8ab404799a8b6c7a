#!/usr/bin/env python3
"""Checks the messages of a branch's own commits: a short subject, and a body that gives the reason and names a figure or a test.

The branch's own commits are those after `$ESKER_LINT_BASE` (default: the upstream of the branch). If the branch has no own commits, or no upstream,
the script checks the newest commit. It prints how many commits it has checked.
"""

import os
import re
import subprocess
import sys

SUBJECT_MAX = 72
BODY_MIN = 40


def git(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *args], capture_output=True, text=True, check=False)


def mistakes(subject: str, body: str) -> list[str]:
    body = "\n".join(line for line in body.splitlines() if not re.match(r"[A-Z][A-Za-z-]+: ", line)).strip()
    found = []
    if len(subject) > SUBJECT_MAX:
        found.append(f"the subject has {len(subject)} characters: expected at most {SUBJECT_MAX}")
    if len(body) < BODY_MIN:
        found.append("the body is missing: expected the reason for the change")
    elif not re.search(r"\d|\btests?\b|measure", body, re.I):
        found.append("the body has neither a figure nor a test: expected evidence that the change works")
    return found


def main() -> int:
    assert mistakes("A subject", "") and mistakes("x" * 80, "why " * 20 + "test") and not mistakes("A subject", "Because it failed in 3 of 5 runs beside load.")
    name = os.environ.get("ESKER_LINT_BASE")
    base = git("rev-parse", "--verify", "--quiet", f"{name or '@{upstream}'}^{{commit}}").stdout.strip()
    if name and not base:
        print(f"commits: $ESKER_LINT_BASE is `{name}`, which is not a commit of this checkout", file=sys.stderr)
        return 1
    # Commits before the first version of this script are not checked.
    start = git("log", "--diff-filter=A", "--format=^%H", "-1", "--", "scripts/check_commits.py").stdout.split()
    commits = git("rev-list", "--no-merges", f"{base}..HEAD", *start).stdout.split() if base else []
    commits = commits or git("rev-list", "--no-merges", "-1", "HEAD").stdout.split()
    failed = False
    for commit in commits:
        subject, _, body = git("log", "-1", "--format=%s%n%b", commit).stdout.partition("\n")
        for mistake in mistakes(subject, body):
            print(f"{commit[:8]} {subject[:60]}: {mistake}")
            failed = True
    print(f"commits: {len(commits)} checked")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
