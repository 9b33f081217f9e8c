#!/usr/bin/env python3
"""Sends a real server requests that are generated from its own OpenAPI document: with the demo model, in a directory of
its own, as nobody, service, person, operator and admin. Fails if an answer is a 5xx, has a status that the document does
not list for the route, or contradicts its schema.

`make api-fuzz` runs it. VIV is the binary, SCHEMATHESIS the generator, SECONDS_EACH the time for each kind of key.
Streams are left out, since they never end: the tests of the server check each of their frames against the document.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

VIV = os.environ["VIV"]
SCHEMATHESIS = os.environ["SCHEMATHESIS"]
# Five kinds of keys in less than five minutes, the start included.
SECONDS_EACH = int(os.environ.get("SECONDS_EACH", "50"))
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
]


class Server:
    """A running server with some agents, spaces, messages, events and keys to ask about."""

    def __init__(self, folder):
        command = [VIV, "up", "--json", "--model", "demo", "--listen", "127.0.0.1:0", "--data-dir", folder]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.process.stdout.readline())
        self.url, self.admin = ready["url"], ready["admin_key"]

    def ask(self, method, path, body=None):
        headers = {"authorization": f"Bearer {self.admin}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def key(self, **new):
        return self.ask("POST", "/v1/keys", new)

    def names(self):
        """Values for the parameters of paths: some that exist, so that requests get past 404, and one that does not."""
        for n in range(8):
            self.ask("POST", "/v1/agents", {"name": f"agent-{n}"})
            self.ask("POST", "/v1/spaces", {"name": f"space-{n}", "members": ["owner", f"agent-{n}"]})
            self.ask("POST", f"/v1/spaces/space-{n}/messages", {"text": "hello", "sender": "owner"})
            self.ask("POST", f"/v1/agents/agent-{n}/events", {"service": "deploy", "payload": {"n": n}})
        ids = lambda path: [item["id"] for item in self.ask("GET", path)["items"]]
        # Keys that nobody uses: an administrator may revoke them.
        spare = [self.key(scope="operator:read")["id"] for _ in range(8)]
        agents = ["ada", *(f"agent-{n}" for n in range(8))]
        return {
            "agent": [*agents, "nobody"],
            "entity": [*agents, "owner", "nobody"],
            "space": ["home", *(f"space-{n}" for n in range(8)), "nowhere"],
            "message": [*ids("/v1/spaces/space-0/messages"), "none"],
            "event": [*ids("/v1/agents/agent-0/events"), "none"],
            "key": [*spare, "none"],
        }

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def with_names(document, names):
    """The document, with the values of its path parameters."""
    for item in document["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path" and parameter["name"] in names:
                    parameter["schema"] = {"type": "string", "enum": names[parameter["name"]]}
    return document


def main():
    with tempfile.TemporaryDirectory(prefix="viv-api-fuzz-") as folder:
        server = Server(os.path.join(folder, "data"))
        try:
            names = server.names()
            document = pathlib.Path(folder, "openapi.json")
            document.write_text(json.dumps(with_names(server.ask("GET", "/openapi.json"), names)))
            keys = {
                "nobody": None,
                "service": server.key(scope="service:deploy")["secret"],
                "person": server.key(scope="person", entity="owner")["secret"],
                "operator": server.key(scope="operator:read")["secret"],
                # Last, since it ends things.
                "admin": server.admin,
            }
            failed = [name for name, key in keys.items() if not passes(name, key, server.url, document, folder)]
            if server.process.poll() is not None:
                failed.append("the server ended")
        finally:
            server.stop()
    if failed:
        sys.exit(f"api-fuzz: found something as {', '.join(failed)}")
    print("api-fuzz: nothing found")


def passes(name, key, url, document, folder):
    """Whether nothing is found with this key."""
    print(f"\n== as {name}", flush=True)
    command = [SCHEMATHESIS, "run", str(document), "--url", url, "--exclude-path-regex", "stream$"]
    command += ["--phases", "examples,coverage,fuzzing", "--max-time", str(SECONDS_EACH), "--request-timeout", "30"]
    # One worker: with several, the parser of Python 3.11 fails by itself.
    command += ["--workers", "1", "--checks", ",".join(CHECKS), "--warnings", "off", "--no-color"]
    if key is not None:
        command += ["--header", f"authorization: Bearer {key}"]
    # In the folder: the generator keeps a database of examples where it runs.
    return subprocess.run(command, cwd=folder, timeout=SECONDS_EACH + 60).returncode == 0


if __name__ == "__main__":
    main()
