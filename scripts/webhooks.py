#!/usr/bin/env python3
"""Delivers to a running server what the vendors' own packages sign, and what they do not; then verifies what it tells others.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install standardwebhooks stripe
    /tmp/v/bin/python scripts/webhooks.py VIV

VIV is the binary. It starts a server with the demo model in a folder of its own, declares a hook of each kind, and
prints one line for each check; it fails with the first one that is not as expected.
"""

import datetime
import hashlib
import hmac
import http.client
import http.server
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import stripe
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

SECRETS = {
    "standard": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "stripe": "whsec_stripe_canary",
    "github": "github-canary",
    "slack": "slack-canary",
}


def mac(secret, text):
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def signed(kind, body, at, identity):
    """The headers of a delivery, made by the vendor's package where there is one."""
    secret = SECRETS[kind]
    if kind == "standard":
        when = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
        signature = Webhook(secret).sign(identity, when, body.decode())
        return {"webhook-id": identity, "webhook-timestamp": str(at), "webhook-signature": signature}
    if kind == "stripe":
        signature = stripe.WebhookSignature._compute_signature(f"{at}.{body.decode()}", secret)
        return {"Stripe-Signature": f"t={at},v1={signature}"}
    if kind == "github":
        signature = mac(secret, body)
        return {"X-GitHub-Event": "push", "X-GitHub-Delivery": identity, "X-Hub-Signature-256": f"sha256={signature}"}
    signature = mac(secret, b"v0:%d:" % at + body)
    return {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": f"v0={signature}"}


def post(url, body, headers):
    request = urllib.request.Request(url, data=body, headers={"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer).get("outcome")
    except urllib.error.HTTPError as error:
        return error.code, json.load(error).get("code")


def announce(url, size, headers):
    """Announces a large body, which the server refuses before it is sent."""
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=20)
    connection.putrequest("POST", address.path)
    for name, value in {"content-type": "application/json", "content-length": str(size), **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, json.load(answer).get("code")


def expect(what, got, wanted):
    print(f"{'ok' if got == wanted else 'WRONG':5} {what}: {got[0]} {got[1]}")
    if got != wanted:
        sys.exit(f"wanted {wanted}")


def check(viv, data, url):
    def run(*arguments, **more):
        done = subprocess.run([viv, *arguments, "--data-dir", data, "--json"], capture_output=True, text=True, **more)
        if done.returncode != 0:
            sys.exit(f"viv {arguments}: {done.stderr}")
        return done.stdout

    run("agents", "create", "ops")
    for kind, secret in SECRETS.items():
        run("secrets", "set", kind, input=secret)
        run("hooks", "add", kind, "--kind", kind, "--secret", kind, "--to", "ops")
    for kind in SECRETS:
        hook = f"{url}/v1/hooks/{kind}"
        now, identity = int(time.time()), f"{kind}-1"
        body = json.dumps({"id": identity, "event_id": identity, "text": "hé"}, ensure_ascii=False).encode()
        headers = signed(kind, body, now, identity)
        expect(f"{kind}, signed", post(hook, body, headers), (202, "accepted"))
        expect(f"{kind}, again", post(hook, body, headers), (200, "duplicate"))
        flipped = bytes([body[0], body[1] ^ 1]) + body[2:]
        expect(f"{kind}, a bit of the body", post(hook, flipped, headers), (401, "signature_invalid"))
        name = next(name for name in headers if name.lower().endswith(("signature", "signature-256")))
        last = "A" if headers[name][-3] != "A" else "B"
        changed = {**headers, name: headers[name][:-3] + (last if kind == "standard" else "0" if headers[name][-3] != "0" else "1") + headers[name][-2:]}
        expect(f"{kind}, a bit of the signature", post(hook, body, changed), (401, "signature_invalid"))
        expect(f"{kind}, no signature", post(hook, body, {}), (401, "signature_missing"))
        if kind != "github":
            old = signed(kind, body, now - 400, identity)
            expect(f"{kind}, of 400 s ago", post(hook, body, old), (401, "signature_old"))
        expect(f"{kind}, 10 MB", announce(hook, 10_000_000, headers), (413, "body_too_large"))
        expect(f"{kind}, plain text", post(hook, body, {**headers, "content-type": "text/plain"}), (415, "not_json"))
        run("hooks", "send", kind)
    tell(run)
    said = run("hooks", "log", "standard") + run("hooks") + run("show", "inbox", "ops")
    kept = [open(os.path.join(data, name), "rb").read() for name in os.listdir(data)
            if name.startswith("vivarium.db")]
    for secret in SECRETS.values():
        if secret in said or any(secret.encode() in file for file in kept):
            sys.exit("a secret was written where it must not be")
    print("ok    no secret in answers or in the store")


def tell(run):
    """Posts messages and verifies what a target is told with the package of Standard Webhooks."""
    told, answers = queue.Queue(), [500, 200, 200]

    class Target(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            told.put((body, dict(self.headers)))
            self.send_response(answers.pop(0))
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    inside = "127.0.0.1:%d" % server.server_port
    arguments = ["targets", "add", "board", f"http://{inside}/viv", "--space", "home", "--secret", "standard"]
    run(*arguments, "--allow", inside)
    for text in ("one", "two"):
        run("say", text, "--space", "home")
    got = [told.get(timeout=30) for _ in range(3)]
    for body, headers in got:
        Webhook(SECRETS["standard"]).verify(body, headers)
        try:
            Webhook(SECRETS["standard"]).verify(body.replace(b"one", b"two").replace(b"two", b"six"), headers)
            sys.exit("a changed delivery was verified")
        except WebhookVerificationError:
            pass
    texts = [json.loads(body)["data"]["text"] for body, _ in got]
    ids = {headers["webhook-id"] for _, headers in got}
    if texts != ["one", "one", "two"] or len(ids) != 2:
        sys.exit(f"told {texts} with {len(ids)} ids")
    print("ok    a target that failed once is told each message in order, and each delivery verifies")
    server.shutdown()


def main():
    viv = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, ".viv")
        server = subprocess.Popen([viv, "up", "--model", "demo", "--listen", "127.0.0.1:0", "--data-dir", data, "--json"],
                                  cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            ready = json.loads(server.stdout.readline())
            os.environ.pop("VIV_URL", None)
            check(viv, data, ready["url"])
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
