"""A model server for `make dist-check`: the chat completions API over HTTPS, with a fixed conversation.

Answers the first request of a cycle with a call of `send_message`, the one after it with `done`. Writes its address to a
file once it serves, and ends with its parent.

    python3 scripts/https_stub.py --certificate server.pem --key server.key --address FILE --text "What it says"
"""

import argparse
import http.server
import json
import os
import pathlib
import ssl
import threading
import time

BODY_MAX_BYTES = 8 << 20
SOCKET_SECONDS = 30


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SOCKET_SECONDS

    def do_GET(self):
        self.answer("application/json", json.dumps({"data": [{"id": "stub"}]}))

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if not 0 < length <= BODY_MAX_BYTES:
            return self.send_error(413)
        request = json.loads(self.rfile.read(length))
        answered = request["messages"][-1]["role"] == "tool"
        name, arguments = ("done", {}) if answered else ("send_message", {"text": self.server.text})
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        chunks = [({"role": "assistant", "content": None, "tool_calls": [call]}, None), ({}, "tool_calls")]
        lines = (self.chunk(delta, reason) for delta, reason in chunks)
        self.answer("text/event-stream", "".join(lines) + "data: [DONE]\n\n")

    @staticmethod
    def chunk(delta, reason):
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": choices}
        return f"data: {json.dumps(chunk)}\n\n"

    def answer(self, kind, body):
        data = body.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(http.server.ThreadingHTTPServer):
    """Handshakes in the thread of the connection: a client that refuses the certificate stops no other."""

    daemon_threads = True

    def finish_request(self, request, client_address):
        request.settimeout(SOCKET_SECONDS)
        with self.context.wrap_socket(request, server_side=True) as secured:
            self.RequestHandlerClass(secured, client_address, self)

    def handle_error(self, request, client_address):
        """A client that hangs up is part of the check."""


def end_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("certificate", "key", "address", "text"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    server = Server(("127.0.0.1", 0), Handler)
    server.text = args.text
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(args.certificate, args.key)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    written = pathlib.Path(args.address + ".part")
    written.write_text(f"https://127.0.0.1:{server.server_address[1]}/v1\n", encoding="utf-8")
    written.rename(args.address)
    server.serve_forever()


main()
