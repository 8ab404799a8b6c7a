"""HTTP requests to a tier, on a persistent connection for each thread."""

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

# Number of attempts if the tier is overloaded.
ATTEMPTS = 5


class TierError(OSError):
    """The tier or the origin does not answer, so that the state of the path is unknown."""


class Tier:
    """The address of a tier, and connections to it."""

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
        """Returns this thread's connection, and whether it was used before. A child process opens its own connection."""
        owned = getattr(self._local, "owned", None)
        if owned is not None and owned[0] == os.getpid():
            return owned[1], True
        connection: http.client.HTTPConnection
        if self._secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        self._local.owned = (os.getpid(), connection)
        return connection, False

    def _drop(self) -> None:
        owned = getattr(self._local, "owned", None)
        self._local.owned = None
        if owned is not None and owned[0] == os.getpid():
            owned[1].close()

    def _exchange(self, method: str, target: str) -> tuple[int, str, bytes]:
        while True:
            connection, used = self._connection()
            try:
                connection.request(method, target, headers={"Accept": "application/json"})
                response = connection.getresponse()
                return response.status, response.getheader("Retry-After", ""), response.read()
            except (http.client.HTTPException, OSError) as error:
                self._drop()
                # The tier closes idle connections, which a client notices only at its next request.
                idle = isinstance(error, (ConnectionError, http.client.BadStatusLine))
                if used and idle:
                    continue
                raise TierError(
                    errno.ECONNREFUSED,
                    f"the tier at {self.url} cannot be reached: {str(error) or type(error).__name__}; "
                    "is it running (`esker site serve`), and is its address right (via=)?",
                ) from error

    def request(self, method: str, what: str, origin: str, path: str, parameters: dict[str, str]) -> dict[str, Any]:
        """Returns the answer to a request as a dict, or raises the exception for its status."""
        query = {"origin": origin.encode(), "path": path.encode("utf-8", "surrogateescape")}
        query.update((name, value.encode()) for name, value in parameters.items())
        pairs = "&".join(f"{name}={quote(value, safe='/')}" for name, value in query.items())
        target = f"{self._below}/v1/{what}?{pairs}"
        for attempt in range(1, ATTEMPTS + 1):
            status, retry_after, body = self._exchange(method, target)
            if status != 503 or attempt == ATTEMPTS:
                break
            time.sleep(min(float(retry_after) if retry_after.isdigit() else 1.0, 5.0))
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not any(key in answer for key in ("age", "kept", "forgotten", "error")):
            message = f"{self.url} answers with status {status}, but not like a tier of a site cache"
            raise TierError(errno.EPROTO, message)
        reason = str(answer.get("error", ""))
        if status < 300:
            return answer
        if status == 404 and "path" in answer:
            raise FileNotFoundError(errno.ENOENT, reason, path)
        if status == 400:
            raise ValueError(reason)
        if status == 403 or reason.startswith(f"{origin} refuses: "):
            raise PermissionError(errno.EACCES, reason, path)
        number = errno.EAGAIN if status == 503 else errno.EIO
        raise TierError(number, reason or f"{self.url} answers with status {status}", path)
