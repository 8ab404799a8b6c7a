"""The commands, as processes of a user that attach to the process which has the folder open: the kernel names the user."""

from __future__ import annotations

import json

from .questions import Questions


def compare(questions: Questions) -> None:
    """Runs commands as the user and compares what they print."""
    service, view, root = questions.service, questions.view, questions.root
    folder = str(service.database)

    def run(*words: str) -> tuple[int, str]:
        done = service.run(*words, person=view.person, check=False)
        text, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        questions.search_hidden(" ".join(words), text + errors, " ".join(words))
        if done.returncode and "EACCES" not in errors:
            raise questions.differ(" ".join(words), "success, or EACCES", errors)
        return done.returncode, text

    status, text = run("find", folder, root, "", "--format", "ndjson")
    questions.equal("command find: exit code", 0, status)
    questions.same_paths("command find", view.walked, {json.loads(line)["path"] for line in text.splitlines()})
    for gids in ([], *[[gid] for gid in view.person.gids]):
        claimed = ":".join([str(view.person.uid), ",".join(map(str, gids))]).rstrip(":")
        status, text = run("find", folder, root, "", "--format", "ndjson", "--as", claimed)
        questions.same_paths(
            f"command find --as {claimed}", view.walked, {json.loads(line)["path"] for line in text.splitlines()}
        )
    status, text = run("find", folder, "", "--format", "ndjson", "--select", "name")
    questions.equal("command find of objects", view.objects, {json.loads(line)["name"] for line in text.splitlines()})
    for path in questions.some(list(questions.scene.children), 2):
        status, text = run("ls", folder, path, "--format", "ndjson")
        if view.lists(path):
            names = {f"{path}/{json.loads(line)['name']}" for line in text.splitlines()}
            questions.same_paths(f"command ls {path}", set(questions.scene.children[path]), names)
        else:
            questions.equal(f"command ls {path}: fails", True, status != 0, [path])
    for path in questions.some(list(questions.known), 2):
        status, _ = run("stat", folder, path)
        questions.equal(f"command stat {path}: succeeds", path in view.reached, status == 0, [path])
    status, text = run("du", folder, root, "--depth", "1000", "--format", "ndjson")
    listable = {path for path in questions.scene.children if path in view.walked and view.lists(path)}
    questions.same_paths("command du", listable, {json.loads(line)["path"] for line in text.splitlines()})
