"""Clients that lie about who they are: they get the answer of an honest client, or a refusal, and no name of a hidden item."""

from __future__ import annotations

import http.client
import json
import os
import socket
import urllib.parse

from .questions import Questions
from .service import PATIENCE, Answer
from .tree import Person

METHODS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PROPFIND", "get", "GET\t"]
VERTICES = "/api/v1/vertices?type=File&limit=100000"
REFUSED = range(300, 600)


def compare(questions: Questions, others: list[Person]) -> None:
    """Sends requests with false statements."""
    find = f"/api/v1/files/find?{urllib.parse.urlencode({'path': questions.root, 'limit': 100_000})}"
    requests = [find, VERTICES, "/api/v1/find?filter=&limit=100000"]
    honest = {target: questions.send("GET", target) for target in requests}
    for target in requests:
        for liar in parameters(questions, others):
            same(questions, honest[target], target, f"{target}&{liar}")
    for headers in false_headers(questions, others):
        same(questions, honest[VERTICES], VERTICES, VERTICES, headers)
    for method in METHODS:
        for target in requests:
            same(questions, honest[target], target, target, method=method)
    paths(questions)
    bodies(questions, others)
    for raw in raw_requests(questions):
        questions.search_hidden(repr(raw[:200]), send_raw(questions, raw), raw.decode("latin-1"))


def same(
    questions: Questions,
    honest: Answer,
    asked: str,
    target: str,
    headers: tuple[tuple[str, str], ...] = (),
    method: str = "GET",
) -> None:
    """Demands the honest answer or a refusal."""
    try:
        answer = questions.send(method, target, headers=headers)
    except (ValueError, OSError, http.client.HTTPException):
        # The library of this client does not send it, or the server closes the connection.
        return
    refused = answer.status in REFUSED or (method in ("HEAD", "OPTIONS") and not answer.body)
    questions.equal(f"{method} {target} {headers}: refused, or as {asked}", True, refused or answer.body == honest.body)


def parameters(questions: Questions, others: list[Person]) -> list[str]:
    me = questions.view.person
    every = ",".join(str(gid) for person in others for gid in person.gids)
    them = next((person for person in others if person != me), me)
    # Without a group that a mode shuts out, a user would be one of the others.
    fewer = [f"uid={me.uid}&gids={gid}" for gid in me.gids] + [f"uid={me.uid}", f"uid={me.uid}&gids="]
    own = [*fewer, f"uid={me.uid}&gids={every},0", f"uid={me.uid}&gids={','.join(map(str, me.gids))}&uid=0", f"gids={every}"]
    return [
        *own,
        "uid=0",
        "uid=0&gids=0",
        f"uid={them.uid}&gids={','.join(map(str, them.gids))}",
        "uid=-1",
        "uid=",
        "uid=root",
        f"uid={1 << 64}",
    ]


def false_headers(questions: Questions, others: list[Person]) -> list[tuple[tuple[str, str], ...]]:
    """Returns headers by which proxies, other programs and attackers name a user or an origin."""
    token = questions.token
    flipped = [
        f"{token[:place]}{'A' if token[place] != 'A' else 'B'}{token[place + 1 :]}"
        for place in (6, len(token) // 2, len(token) - 1)
    ]
    names = [
        "X-Remote-User",
        "Remote-User",
        "X-Forwarded-User",
        "X-Esker-User",
        "Esker-User",
        "As",
        "X-As",
        "uid",
        "X-Uid",
        "esker-as",
    ]
    found: list[tuple[tuple[str, str], ...]] = [((name, value),) for name in names for value in ("0", "root")]
    for name in (
        "X-Forwarded-For",
        "Forwarded",
        "X-Real-IP",
        "Via",
        "X-Forwarded-Host",
        "X-Original-URL",
        "X-HTTP-Method-Override",
    ):
        found.append(((name, "for=127.0.0.1" if name == "Forwarded" else "127.0.0.1"),))
    garbage = [
        "",
        "Bearer",
        "Bearer ",
        "Basic cm9vdDo=",
        "Bearer esker_",
        f"Bearer {'A' * 5_000}",
        "Negotiate YII=",
        "Digest username=root",
    ]
    found += [(("Authorization", value),) for value in [*garbage, *(f"Bearer {one}" for one in flipped)]]
    found.append((("Authorization", "Bearer esker_x"), ("Authorization", f"Bearer {token}")))
    found.append((("Authorization", f"Bearer {token}"), ("Authorization", "Bearer esker_x")))
    found += [
        (("Cookie", "esker_session=x; session=x"),),
        (("Host", "localhost"),),
        (("Host", "example.org"),),
        (("Origin", "http://localhost"),),
    ]
    return found


def paths(questions: Questions) -> None:
    """Asks for hidden files by unusual spellings of their paths."""
    hidden = [path for path in questions.known if path not in questions.view.reached]
    unreadable = [path for path in questions.scene.vertices if not questions.view.sees(path)]
    for path in questions.some(hidden, 4):
        parent, _, name = path.rpartition("/")
        spellings = [
            f"/{path}",
            path.replace("/", "//"),
            f"{parent}/./{name}",
            f"{parent}/../{parent.rpartition('/')[2]}/{name}",
            f"{path}/",
            f"{path}/.",
        ]
        spellings += [
            f"{path}/..",
            urllib.parse.quote(path, safe=""),
            path.replace("/", "/%2e/"),
            f"{path}\0",
            f"{path}%00",
            path.upper(),
            path + "/x" * 3_000,
        ]
        for spelling in spellings:
            if os.path.normpath(spelling) in questions.view.reached:
                # `..` is taken from the text of the path, whether or not the name before it exists.
                continue
            for what in ("files/stat", "files/list", "files/find", "files/usage", "view/space"):
                answer = questions.get(f"/api/v1/{what}", path=spelling)
                questions.equal(f"{what} {spelling[:300]}: refused", True, answer.status in REFUSED, [path])
    for path in questions.some(unreadable, 4):
        name = questions.known[path].path
        for vertex in (
            f"file:{name}",
            f"directory:{name}",
            f"file:/{name}",
            f"file:{name}/",
            f"File:{name}",
            f"executable:{name}",
            f"file:{name}\0",
        ):
            for what in ("vertex", "edges", "lineage", "impact", "view/lineage", "view/neighbourhood"):
                answer = questions.get(f"/api/v1/{what}", id=vertex)
                if path not in questions.view.reached or vertex in (f"file:{name}", f"directory:{name}"):
                    questions.equal(f"{what} {vertex}: refused, or empty", True, answer.status in REFUSED, [path])
    # Paths of routes, spelled so that a check of the route might miss them.
    for route in (
        "//metrics",
        "/./metrics",
        "/api/v1/../../metrics",
        "/%6detrics",
        "/metrics/",
        "/api/v1//sessions",
        "/api/v1/files/top?by=user",
    ):
        questions.equal(f"GET {route}: refused", True, questions.send("GET", route).status in REFUSED)


def bodies(questions: Questions, others: list[Person]) -> None:
    """Sends statements in bodies, and requests that change data."""
    kind = [("Content-Type", "application/json")]
    them = next((person for person in others if person != questions.view.person), questions.view.person)
    honest = questions.send("POST", "/api/v1/find", json.dumps({"filter": ""}).encode(), kind)
    for more in ({"uid": 0}, {"uid": them.uid, "gids": list(them.gids)}, {"principal": {"uid": 0}}):
        answer = questions.send("POST", "/api/v1/find", json.dumps({"filter": "", **more}).encode(), kind)
        questions.equal(
            f"POST find {more}: refused, or as without", True, answer.status in REFUSED or answer.body == honest.body
        )
    changes = [
        ("POST", "/api/v1/apply", {"op": "put_vertex", "id": "job:liar", "attributes": {}}),
        ("POST", "/api/v1/objects", {"name": "liar", "owner": questions.view.person.uid}),
        ("POST", "/api/v1/tag", {"filter": "", "set": {"liar": 1}}),
        ("POST", "/api/v1/index", {"name": "energy", "on": False}),
        ("POST", "/api/v1/rdf/load", {"name": "x", "format": "nq"}),
    ]
    for method, target, body in changes:
        answer = questions.send(method, target, json.dumps(body).encode(), kind)
        questions.equal(f"{method} {target}: refused", True, answer.status in REFUSED)
    update = urllib.parse.urlencode({"update": "INSERT DATA { <urn:x> <urn:y> <urn:z> }"}).encode()
    answer = questions.send("POST", "/sparql", update, [("Content-Type", "application/x-www-form-urlencoded")])
    questions.equal("POST /sparql, an update: refused", True, answer.status in REFUSED)


def raw_requests(questions: Questions) -> list[bytes]:
    """Returns requests that no library sends: ambiguous lengths, two requests in one, absolute targets, other protocols."""
    token, address = questions.token, questions.service.address
    head = f"Host: {address}\r\nAuthorization: Bearer {token}\r\n"
    smuggled = f"GET /api/v1/vertices?type=File&uid=0 HTTP/1.1\r\nHost: {address}\r\n\r\n"
    target = "/api/v1/vertices?type=File"
    texts = [
        f"GET http://localhost{target}&uid=0 HTTP/1.1\r\n{head}\r\n",
        f"GET {target} HTTP/1.0\r\n\r\n",
        f"GET {target} HTTP/0.9\r\n\r\n",
        f"GET {target}\r\n\r\n",
        f"POST {target} HTTP/1.1\r\n{head}Content-Length: {len(smuggled)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + smuggled,
        f"POST {target} HTTP/1.1\r\n{head}Content-Length: 0\r\nContent-Length: {len(smuggled)}\r\n\r\n{smuggled}",
        f"GET {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\n\tuid: 0\r\n\r\n",
        f"GET {target}&x={'y' * 100_000} HTTP/1.1\r\n{head}\r\n",
        f"GET {target} HTTP/1.1\r\n{head}{'X: y' + chr(13) + chr(10)}" * 300 + "\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "SSH-2.0-client\r\n",
    ]
    return [text.encode("latin-1") for text in texts]


def send_raw(questions: Questions, raw: bytes) -> str:
    """Sends bytes, and returns all that the server answers until it closes the connection."""
    host, _, port = questions.service.address.rpartition(":")
    found = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                found += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
    return found.decode("latin-1")
