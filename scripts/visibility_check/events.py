"""Events and news of changes that the owner makes: each user gets those of items that it may see, and no others."""

from __future__ import annotations

import http.client
import json
import threading

from .facts import path_of, vertex_of
from .questions import Questions, Scene
from .service import PATIENCE


class Listener(threading.Thread):
    """Reads the stream of events of one user until an event has a text."""

    def __init__(self, questions: Questions, last: str) -> None:
        super().__init__(daemon=True)
        self.last, self.text = last, ""
        self.error: OSError | None = None
        self.connection = http.client.HTTPConnection(questions.service.address, timeout=PATIENCE)
        self.connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {questions.token}"})
        self.stream = self.connection.getresponse()
        while not self.text.endswith(": connected\n\n"):
            self.text += self.stream.readline().decode()

    def run(self) -> None:
        try:
            while self.last not in self.text and (line := self.stream.readline()):
                self.text += line.decode()
        except OSError as e:
            self.error = e
        finally:
            self.connection.close()


def compare(scene: Scene, some: list[Questions]) -> None:
    """Changes vertices and edges as the owner, and compares what the users are told."""
    service, recorder, rng = scene.service, scene.recorder, scene.rng
    live = [path for path in scene.vertices if path in scene.known and scene.known[path].kind != "directory"]
    changed = rng.sample(live, min(40, len(live)))
    last = f"job:end{rng.getrandbits(48):012x}"
    lines: list[dict] = [
        {"op": "set", "id": vertex_of(scene.known[path]), "set": {"step": rng.randrange(1 << 30)}} for path in changed
    ]
    places, listeners = [], []
    for questions in some:
        places.append(questions.found("/api/v1/news")["place"])
        listeners.append(Listener(questions, last))
        listeners[-1].start()
    service.apply(recorder.token, lines)
    service.apply(recorder.token, [{"op": "put_vertex", "id": last, "attributes": {}}])
    for questions, place, listener in zip(some, places, listeners, strict=True):
        expected = {path for path in changed if questions.view.sees(path)}
        listener.join(PATIENCE)
        questions.equal(
            "events: the end was told", (None, False, True), (listener.error, listener.is_alive(), last in listener.text)
        )
        questions.search_hidden("GET /api/v1/events", listener.text)
        told = [json.loads(line[6:]) for line in listener.text.splitlines() if line.startswith("data: {")]
        got = [path for event in told for one in event.get("changes", []) if (path := path_of(one["id"])) is not None]
        questions.same_files("events", expected, got)
        news = questions.found("/api/v1/news", place=place)
        questions.same_files("news", expected, [path for name in news["vertices"] if (path := path_of(name)) is not None])
