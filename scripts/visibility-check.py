#!/usr/bin/env python3
"""Checks that a server shows each user exactly what the user's own processes may see of a real tree of files.

For each seed, the script creates a tree with owners, modes, access control lists, hard and symbolic links, imports it into a
database, and starts a server. A process of each user (setgroups, setresgid, setresuid; no capabilities) finds by lstat(2),
access(2) and a walk what that user may see. The same user then asks the server by a token that is bound to it: files,
vertices, edges, lineage, traversals, counts, objects, search and completion, SPARQL, catalogue records, OAI-PMH, events, and
by the commands. The answers have to be equal. No answer may have the name of a hidden item: each name has a token of its own,
and the script searches all answers for the tokens of hidden names. Then rights change, files move, get names and are removed,
the tree is imported again, and all users ask again. At the end, clients lie about who they are.

Users, groups and owners are made up; the script has to run as user 0. Elsewhere it starts itself in a user namespace if
/etc/subuid permits.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from visibility_check import commands, events, lies
from visibility_check.facts import Recorder
from visibility_check.oracle import UserView, query_process
from visibility_check.questions import Difference, Questions, Scene, paths_through
from visibility_check.service import Service
from visibility_check.tree import Person, Tree, people

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "ESKER_VISIBILITY_CHECK_INSIDE"
"""Environment variable of a process that is in the user namespace already."""
KEYS = 2
"""Users of each seed who also have an SSH key, run commands, listen to events and lie."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="first seed [1]")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds [1]")
    parser.add_argument("--entries", type=int, default=1_500, help="entries of the tree [1500]")
    parser.add_argument("--users", type=int, default=12, help="users [12]")
    parser.add_argument("--groups", type=int, default=8, help="groups [8]")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of later changes [1]")
    parser.add_argument("--changes", type=int, help="changes of each round [one for 25 entries]")
    parser.add_argument("--sample", type=int, default=8, help="single paths that each user asks for, for each interface [8]")
    parser.add_argument("--share", type=float, default=1.0, help="part of the interfaces that each user asks in each state [1]")
    parser.add_argument("--no-acls", action="store_true", help="create no access control lists")
    parser.add_argument(
        "--folder",
        type=Path,
        help="existing folder for trees and databases; its file system has to have access control lists [/dev/shm or /tmp]",
    )
    parser.add_argument("--keep", action="store_true", help="keep the tree and the database of a seed that fails")
    options = parser.parse_args()
    if min(options.seeds, options.users, options.groups) < 1 or options.entries < 50:
        parser.error("expected at least one seed, user and group, and 50 entries")
    return options


def become_root() -> None:
    """Continues as user 0 of a user namespace, or ends where that is not possible."""
    if os.geteuid() == 0:
        return
    unshare = ["unshare", "--user", "--map-root-user", "--map-auto"]
    if not os.environ.get(INSIDE) and shutil.which("unshare"):
        tried = subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False)
        if tried.returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", [*unshare, sys.executable, *sys.argv])
    print("skipped: visibility: processes of other users need user 0, or a line of this user in /etc/subuid and /etc/subgid")
    sys.exit(0)


class Seed:
    """The check of one seed."""

    def __init__(self, options: argparse.Namespace, esker: str, seed: int, folder: Path) -> None:
        self.options, self.seed, self.folder = options, seed, folder
        self.rng = random.Random(f"{seed}")
        self.people = people(self.rng, options.users, options.groups)
        self.tree = Tree(folder / "tree", self.rng, self.people, not options.no_acls)
        self.service = Service(esker, folder)
        self.earlier: dict[str, str] = {}
        """Tokens of names in earlier states, and their last paths."""
        self.reached: dict[Person, set[str]] = {person: set() for person in self.people}
        """Paths that a user could reach in earlier states."""
        self.compared = 0

    def run(self) -> None:
        self.tree.grow(self.options.entries)
        tokens = {person: self.service.grant("--as", person.text()) for person in self.people}
        owner = self.service.grant("--role", "write")
        keys = {person: self.service.grant_key(person) for person in self.people[:KEYS]}
        self.service.start()
        try:
            self.read_tree()
            recorder = Recorder(self.service, owner, self.rng, self.tree.root)
            known = self.tree.snapshot()
            recorder.record_files(known, min(0.4, 4_000 / len(known)))
            recorder.record_objects(self.folder / "objects", self.people, 40)
            for round_number in range(self.options.rounds + 1):
                if round_number:
                    self.change(known)
                    known = self.tree.snapshot()
                self.compare(recorder, known, tokens, keys, last=round_number == self.options.rounds)
        finally:
            self.service.stop()

    def read_tree(self) -> None:
        self.service.run("import", "tree", str(self.service.database), self.tree.root)

    def change(self, known: dict) -> None:
        """Changes the tree. Some files are moved in the namespace, too, so that they keep their vertices; an import finds all
        other changes.
        """
        moved = 0
        count = self.options.changes or max(20, self.options.entries // 25)
        for word, *paths in self.tree.change(known, count):
            if word == "mv" and moved < 4 and paths[0] in known:
                done = self.service.run("mv", str(self.service.database), *paths, check=False)
                moved += done.returncode == 0
        self.read_tree()

    def compare(self, recorder: Recorder, known: dict, tokens: dict[Person, str], keys: dict[Person, Path], last: bool) -> None:
        paths, objects = list(known), list(recorder.stand_ins)
        through = paths_through(known, self.rng, 12)
        scene = Scene(self.service, recorder, known, recorder.facts(), self.rng, self.options.sample)
        questions = {}
        for person in self.people:
            powers = query_process(person, self.tree.root, paths, through, [recorder.stand_ins[name] for name in objects])
            view = UserView(person, known, powers, objects)
            gone = {token: path for token, path in self.earlier.items() if path not in known}
            gone |= {note: path for note, path in recorder.note_paths.items() if recorder.notes[note] not in scene.with_vertex}
            past = {token for token, path in gone.items() if path in self.reached[person] or view.searches_above(path)}
            questions[person] = Questions(scene, view, tokens[person], past, self.earlier)
        try:
            for one in questions.values():
                one.everything(self.options.share)
            some = [questions[person] for person in keys]
            events.compare(scene, some)
            for one in some:
                commands.Commands(one, str(self.service.database), attached=True).compare()
                commands.Commands(one, self.service.with_key(keys[one.view.person]), attached=False).compare()
            if last:
                for one in some[: 2 if self.options.share == 1 else 1]:
                    lies.compare(one, [other.view.person for other in questions.values()])
        finally:
            self.compared += sum(one.compared for one in questions.values())
        for person, one in questions.items():
            self.reached[person] |= one.view.reached
        self.earlier |= {one.token: path for path, one in known.items()}


def main() -> int:
    options = arguments()
    become_root()
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    esker = os.environ.get("ESKER_BIN") or str(target / "debug/esker")
    if not Path(esker).is_file():
        sys.exit(f"visibility-check: `{esker}` does not exist: build it with `cargo build --bin esker`, or set ESKER_BIN")
    base = options.folder or next(Path(place) for place in ("/dev/shm", "/tmp") if Path(place).is_dir())
    compared, began = 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.seeds):
        folder = Path(tempfile.mkdtemp(prefix="esker-visibility-", dir=base))
        folder.chmod(0o755)
        failed = True
        try:
            one = Seed(options, esker, seed, folder)
            one.run()
            compared += one.compared
            failed = False
        except Difference as e:
            print(f"FAILED: seed {seed}: {e}")
            print(
                f"again: scripts/visibility-check.py --seed {seed} --entries {options.entries} --users {options.users}"
                f" --groups {options.groups} --share {options.share} --sample {options.sample}"
            )
            return 1
        finally:
            if failed and options.keep:
                print(f"the tree and the database are in {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
        print(f"seed {seed}: {compared} answers compared, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{options.users} users, {options.entries} entries, {compared} answers compared, 0 differences")
    return 0


if __name__ == "__main__":
    sys.exit(main())
