"""A browser without scripts: it follows redirects, keeps cookies and submits forms."""

from __future__ import annotations

import http.cookiejar
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser

DEADLINE = 300
"""Seconds after which an answer is missing. The usual time is below 1 s."""


class Form(HTMLParser):
    """The first form of a page: its address and its fields."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form" and self.action is None:
            self.action, self.open = values.get("action", ""), True
        elif tag == "input" and self.open and "name" in values:
            self.fields[values["name"]] = values.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.open = False


@dataclass
class Page:
    """An answer after all redirects; status 0 if a server does not answer."""

    status: int
    url: str
    text: str


@dataclass
class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and notes their addresses and the cookies that they set."""

    addresses: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0913
        self.addresses.append(newurl)
        self.cookies += headers.get_all("Set-Cookie") or []
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Browser:
    """One browser with its cookies. Those of 127.0.0.1 go to all its ports, as in any browser."""

    def __init__(self) -> None:
        self.redirects = Redirects()
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies, self.redirects)

    def open(self, url: str, fields: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Page:
        data = urllib.parse.urlencode(fields).encode() if fields is not None else None
        request = urllib.request.Request(url, data, headers or {})
        try:
            with self.opener.open(request, timeout=DEADLINE) as answer:
                return Page(answer.status, answer.url, answer.read().decode())
        except urllib.error.HTTPError as e:
            return Page(e.code, e.url, e.read().decode())
        except urllib.error.URLError as e:
            return Page(0, self.redirects.addresses[-1] if self.redirects.addresses else url, str(e.reason))

    def fill(self, page: Page, issuer: str, user: str) -> Page:
        """Fills the forms of the provider's pages until a page has no form, or another server answers."""
        for _ in range(10):
            form = Form(page.text)
            if form.action is None or not page.url.startswith(issuer):
                break
            answers = {name: {"login": user, "password": "any"}.get(name, value) for name, value in form.fields.items()}
            page = self.open(urllib.parse.urljoin(page.url, form.action), answers)
        return page

    def log_in(self, url: str, issuer: str, user: str) -> Page:
        """Opens a page that leads to the provider, and logs in there."""
        return self.fill(self.open(url), issuer, user)
