"""One tier, asked over HTTP on connections that are kept, one for each thread."""

from __future__ import annotations

import errno
import http.client
import json
import os
import ssl
import threading
import time
from typing import Any
from urllib.parse import quote, urlsplit

# How often a tier that has too much to do is asked.
TRIES = 5


class TierError(OSError):
    """The tier, or the origin behind it, gives no answer: nothing is known of the path."""


class Tier:
    """A tier's address, and connections to it."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"`{url}` is not an address of a tier: expected http://HOST:PORT, as in http://127.0.0.1:7500")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._secure = parts.scheme == "https"
        self._host: str = parts.hostname
        self._port = parts.port
        self._below = parts.path.rstrip("/")
        self._timeout = timeout
        self._local = threading.local()

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """This thread's connection, and whether it has been used. A child process makes its own."""
        held = getattr(self._local, "held", None)
        if held is not None and held[0] == os.getpid():
            return held[1], True
        made: http.client.HTTPConnection
        if self._secure:
            context = ssl.create_default_context()
            made = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        else:
            made = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        self._local.held = (os.getpid(), made)
        return made, False

    def _drop(self) -> None:
        held = getattr(self._local, "held", None)
        self._local.held = None
        if held is not None and held[0] == os.getpid():
            held[1].close()

    def _exchange(self, method: str, target: str) -> tuple[int, str, bytes]:
        while True:
            connection, used = self._connection()
            try:
                connection.request(method, target, headers={"Accept": "application/json"})
                answer = connection.getresponse()
                return answer.status, answer.getheader("Retry-After", ""), answer.read()
            except (http.client.HTTPException, OSError) as error:
                self._drop()
                # A tier closes connections that are idle; that shows with the next request only.
                idle = isinstance(error, (ConnectionError, http.client.BadStatusLine))
                if used and idle:
                    continue
                raise TierError(
                    errno.ECONNREFUSED,
                    f"the tier at {self.url} cannot be reached: {str(error) or type(error).__name__}; "
                    "is it running (`esker site serve`), and is its address right (via=)?",
                ) from error

    def ask(self, method: str, what: str, origin: str, path: str, wish: dict[str, str]) -> dict[str, Any]:
        """An answer's JSON, or the exception that stands for it."""
        query = {"origin": origin.encode(), "path": path.encode("utf-8", "surrogateescape")}
        query.update((name, value.encode()) for name, value in wish.items())
        pairs = "&".join(f"{name}={quote(value, safe='/')}" for name, value in query.items())
        target = f"{self._below}/v1/{what}?{pairs}"
        for attempt in range(1, TRIES + 1):
            status, after, body = self._exchange(method, target)
            if status != 503 or attempt == TRIES:
                break
            time.sleep(min(float(after) if after.isdigit() else 1.0, 5.0))
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not any(key in answer for key in ("age", "kept", "forgotten", "error")):
            message = f"{self.url} answers {status}, but not as a tier of a site cache"
            raise TierError(errno.EPROTO, message)
        why = str(answer.get("error", ""))
        if status < 300:
            return answer
        if status == 404 and "path" in answer:
            raise FileNotFoundError(errno.ENOENT, why, path)
        if status == 400:
            raise ValueError(why)
        if status == 403 or why.startswith(f"{origin} refuses: "):
            raise PermissionError(errno.EACCES, why, path)
        number = errno.EAGAIN if status == 503 else errno.EIO
        raise TierError(number, why or f"{self.url} answers {status}", path)
