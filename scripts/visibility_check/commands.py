"""Commands of a user: of processes that attach to the one which has the folder open, where the kernel names the user; and over
the network with an SSH key that is bound to the user."""

from __future__ import annotations

import json

from .facts import JOBS, path_of
from .questions import Questions

REFUSALS = ("EACCES", "may not ask on behalf of", "cannot ask on behalf of")


class Commands:
    """Commands of one user on one target."""

    def __init__(self, questions: Questions, target: str, attached: bool) -> None:
        self.questions, self.target, self.attached = questions, target, attached
        self.name = "attached" if attached else "with a bound key"

    def run(self, command: str, *words: str) -> tuple[int, list[dict]]:
        """Runs a command; returns its exit code and rows."""
        questions = self.questions
        line = [command, self.target, *words, "--format", "ndjson"]
        done = questions.service.run(*line, person=questions.view.person if self.attached else None, check=False)
        text, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        questions.search_hidden(" ".join(line), text + errors, " ".join(words))
        if done.returncode and not any(word in errors for word in REFUSALS):
            raise questions.differ(f"{' '.join(line)}, {self.name}", "success, or EACCES", errors)
        return done.returncode, [json.loads(row) for row in text.splitlines()]

    def compare(self) -> None:
        questions, view, root = self.questions, self.questions.view, self.questions.root
        status, rows = self.run("find", root, "")
        questions.equal(f"command find, {self.name}: exit code", 0, status)
        questions.same_paths(f"command find, {self.name}", view.walked, {row["path"] for row in rows})
        # Without a group that a mode shuts out, a user would be one of the others.
        for gids in ([], *[[gid] for gid in view.person.gids]):
            claimed = ":".join([str(view.person.uid), ",".join(map(str, gids))]).rstrip(":")
            _, rows = self.run("find", root, "", "--as", claimed)
            questions.same_paths(f"command find --as {claimed}, {self.name}", view.walked, {row["path"] for row in rows})
        status, _ = self.run("find", root, "", "--as", "0:0")
        questions.equal(f"command find --as 0:0, {self.name}: refused", True, status != 0)
        _, rows = self.run("find", "", "--select", "name")
        questions.equal(f"command find of objects, {self.name}", view.objects, {row["name"] for row in rows})
        for path in questions.some(list(questions.scene.children), 2):
            status, rows = self.run("ls", path)
            if view.lists(path):
                names = {f"{path}/{row['name']}" for row in rows}
                questions.same_paths(f"command ls {path}, {self.name}", set(questions.scene.children[path]), names)
            else:
                questions.equal(f"command ls {path}, {self.name}: fails", True, status != 0, [path])
        for path in questions.some(list(questions.known), 2):
            status, _ = self.run("stat", path)
            questions.equal(f"command stat {path}, {self.name}: succeeds", path in view.reached, status == 0, [path])
        _, rows = self.run("du", root, "--depth", "1000")
        listable = {path for path in questions.scene.children if path in view.walked and view.lists(path)}
        questions.same_paths(f"command du, {self.name}", listable, {row["path"] for row in rows})
        for job in questions.some([f"job:{n}" for n in range(JOBS)], 2):
            _, rows = self.run("edges", job)
            expected = {path for _, path in questions.facts.edges[job] if questions.visible(path)}
            questions.same_files(
                f"command edges {job}, {self.name}", expected, [path_of(row["dst"]) or "" for row in rows], True
            )
        _, rows = self.run("travel", 'v(type="Job").e("read").v()')
        expected = {
            path for listed in questions.facts.edges.values() for of, path in listed if of == "read" and questions.visible(path)
        }
        questions.same_files(f"command travel, {self.name}", expected, [path_of(row["id"]) or "" for row in rows], True)
