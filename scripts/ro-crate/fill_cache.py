"""Puts the context of RO-Crate 1.1 from the package `rocrate` into the HTTP cache of roc-validator, so that the validator needs no network."""

from __future__ import annotations

import io
import sys
from importlib import resources
from typing import Any

import requests
from requests.adapters import BaseAdapter
from requests_cache import CachedSession
from urllib3 import HTTPResponse

CONTEXT = "https://w3id.org/ro/crate/1.1/context"


class ContextAdapter(BaseAdapter):
    """Answers requests for the context with the file of the package, and refuses other requests."""

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        assert request.url == CONTEXT, request.url
        body = (resources.files("rocrate") / "data" / "ro-crate.jsonld").read_bytes()
        headers = {"Content-Type": "application/ld+json"}
        raw = HTTPResponse(body=io.BytesIO(body), headers=headers, status=200, preload_content=False)
        response = requests.adapters.HTTPAdapter().build_response(request, raw)
        response.url = CONTEXT
        return response

    def close(self) -> None:
        """Does nothing, because the adapter has no connections."""


session = CachedSession(cache_name=sys.argv[1], backend="sqlite", expire_after=-1, allowable_methods=("GET",))
session.mount("https://", ContextAdapter())
for headers in ({}, {"Accept": "application/ld+json, application/json"}):
    session.get(CONTEXT, headers=headers).raise_for_status()
