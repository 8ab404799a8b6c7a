"""Checks with Python's official iRODS client that the responder serves the content of the folder."""

import os
import sys

from irods.exception import CAT_INVALID_AUTHENTICATION, CollectionDoesNotExist
from irods.session import iRODSSession

port, folder, trusted = sys.argv[1:]
secure = {
    "client_server_negotiation": "request_server_negotiation",
    "client_server_policy": "CS_NEG_REQUIRE",
    "encryption_algorithm": "AES-256-CBC",
    "encryption_key_size": 32,
    "encryption_num_hash_rounds": 16,
    "encryption_salt_size": 8,
    "ssl_ca_certificate_file": trusted,
    "ssl_verify_server": "hostname",
}


def session(password):
    return iRODSSession(host="127.0.0.1", port=int(port), user="ann", password=password, zone="lab", **(secure if trusted else {}))


with session("secret word") as logged_in:
    for below in ["", "/dir", "/thousand", "/empty"]:
        collection = logged_in.collections.get("/lab" + below)
        entries = list(os.scandir(folder + below))
        files = {e.name for e in entries if e.is_file()}
        assert {o.name for o in collection.data_objects} == files, below
        assert {c.name for c in collection.subcollections} == {e.name for e in entries if e.is_dir()}, below
    data = logged_in.data_objects.get("/lab/dir/inner")
    assert {r.status: r.size for r in data.replicas}["1"] == os.stat(folder + "/dir/inner").st_size
    try:
        logged_in.collections.get("/lab/nothing")
        sys.exit("a missing collection was found")
    except CollectionDoesNotExist:
        pass
try:
    with session("wrong word") as rejected:
        rejected.collections.get("/lab")
    sys.exit("a wrong password was accepted")
except CAT_INVALID_AUTHENTICATION:
    pass
