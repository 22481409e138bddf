"""Schemathesis hooks for Stoa: paths that it must not change, and a check that a rejected request changes nothing."""

import os

import requests
import schemathesis

URL = os.environ["STOA_URL"]
# Its entity tag changes with each change of the running configuration.
TAG = URL + "/restconf/ds/ietf-datastores:running/stoa-management:management/https/port"

session = requests.Session()
# The environment's certificate settings do not apply to this router.
session.trust_env = False
session.verify = os.environ["STOA_CERTIFICATE"]
session.headers["Authorization"] = "Bearer " + os.environ["STOA_TOKEN"]

# Port drivers and other nodes that create devices or files on the test machine.
NOT_HERE = {"af-packet", "af-xdp", "tap", "memif", "dpdk", "pcap", "generator", "tunnel", "stoa-host-interface:host-interface"}
# Limits that would stop the test itself, and a confirm timeout that would revert a change during the test.
NOT_NOW = {"limits", "confirm-within"}
# Settings that affect the machine rather than the server.
NOT_CHANGED = ("/restconf/data/stoa-system:", "/restconf/data/stoa-logging:")

# Entries in the test router's configuration; requests for other names only reach the not-found path.
THERE = {
    "interface-name": "lan", "address-ip": "10.0.0.1", "user-name": "ann", "vrf-name": "red",
    "rule-list-name": "ops", "rule-name": "texts", "group-name": "ops",
}

state = {"tag": None, "turn": 0}


def now():
    """The entity tag of the running configuration."""
    return session.head(TAG, timeout=10).headers.get("etag")


@schemathesis.hook
def before_load_schema(ctx, raw_schema):
    paths = raw_schema["paths"]
    for path in list(paths):
        names = {part.split("=")[0] for part in path.split("/")}
        if names & NOT_HERE:
            del paths[path]
        elif path.startswith(NOT_CHANGED) or names & NOT_NOW:
            for method in ("put", "patch", "post", "delete"):
                paths[path].pop(method, None)


def without(value):
    """A value without the members that the test must not set."""
    if isinstance(value, dict):
        unwanted = NOT_HERE | NOT_NOW
        kept = {name: it for name, it in value.items() if name.split(":")[-1] not in unwanted and name not in unwanted}
        return {name: without(it) for name, it in kept.items()}
    if isinstance(value, list):
        return [without(it) for it in value]
    return value


@schemathesis.hook
def map_body(ctx, body):
    return without(body)


def is_short(values):
    # The server rejects a request head of more than 64 KiB before reading all of it, and the reply may be lost with the
    # connection; greedy.rs tests that.
    return sum(len(str(name)) + len(str(value)) for name, value in (values or {}).items()) < 4096


@schemathesis.hook
def filter_query(ctx, query):
    return is_short(query)


@schemathesis.hook
def filter_headers(ctx, headers):
    return is_short(headers)


@schemathesis.hook
def map_path_parameters(ctx, path_parameters):
    # One in four requests keeps its generated names.
    state["turn"] += 1
    if path_parameters and state["turn"] % 4:
        path_parameters.update({name: THERE[name] for name in path_parameters if name in THERE})
    return path_parameters


@schemathesis.check
def a_refused_request_changes_nothing(ctx, response, case):
    before, state["tag"] = state["tag"], now()
    refused = 400 <= response.status_code
    if before is not None and (refused or case.method == "GET"):
        assert state["tag"] == before, \
            f"{case.method} {case.path} changed the running configuration, with status {response.status_code}"
