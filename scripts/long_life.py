#!/usr/bin/env python3
"""Lets one agent of a real server live through thousands of cycles with a small window, and asks it at the end for what it
was told once. Prints what became of the facts, the memory of the process, the largest request, and the compactions.

`make long-life` runs it. VIV is the binary. The model is a stub in this process that speaks chat completions: it answers
without knowing anything, and writes the summaries. Exit status 1 if a request was larger than the window, if a cycle
failed, or if memory grew.
"""

import argparse
import collections
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

VIV = os.path.abspath(os.environ.get("VIV", "target/release/viv"))
FACTS = 40
# Excerpts of a search that count.
HITS = 5
# So often in a row no request may be in flight before the next message, 2 ms apart.
QUIET_POLLS = 25
# How much the process may grow between a tenth of the life and its end, in MB: SQLite's page caches fill up, which hold
# 16 MiB for the writer, 8 for the index and 2 for each reader.
GROWTH_MAX = 32

CUSTOMERS = ["Marlow", "Ostrava", "Fennel", "Quayside", "Birk", "Tamarind", "Wexford", "Juniper"]
# As in `crates/testkit/src/long_life/facts.rs`: a statement, the question in its words and in others.
TEMPLATES = [
    ("PO", "every invoice for {who} must carry the purchase number {value}",
     "Which purchase number must every invoice for {who} carry?", "What do we have to quote when we bill {who}?"),
    ("G", "deliveries to {who} go to gate {value}, never to the front door",
     "To which gate do deliveries to {who} go?", "Where does the truck unload at {who}?"),
    ("RA", "refunds at {who} are approved by the holder of badge {value}",
     "Which badge does the holder have who approves refunds at {who}?", "Whose consent do we need before we pay {who} back?"),
    ("FW", "the routers at {who} run firmware {value} and must not be updated",
     "Which firmware do the routers at {who} run?", "Which software version has to stay on the network devices of {who}?"),
    ("LINE", "the support line of {who} is {value}, in the mornings only",
     "What is the support line of {who}?", "Which number do we dial to reach someone at {who}?"),
]
TICKET = [
    "Since the change of last week the screen in the warehouse stays dark until somebody turns it off and on again.",
    "Two of the parcels came without their labels, and nobody here can say to whom they belong.",
    "The report of the last month shows twelve units more than we counted on the shelf.",
    "Our new colleague cannot log in, although her account was confirmed on the same day.",
    "The printer at the loading bay takes a minute for each page since it was moved.",
    "We were promised a call back by Tuesday and have heard nothing so far.",
    "Please tell us as well whether the spare parts can be sent together with the next order.",
    "It happens only in the mornings, before the second shift begins, and never on a weekend.",
]
ANSWER = [
    "Thank you for the details, they helped to find it.",
    "A technician has looked at the records, and the cause is a setting that was lost when the unit was replaced.",
    "The setting is restored; please turn the unit off once and on again.",
    "If it happens again, write down the time, so that we can compare it with our log.",
    "The ticket stays open until you tell us that all is well.",
]


def sentences(of, seed, count):
    return " ".join(of[(seed * 7 + k * (1 + seed % 3)) % len(of)] for k in range(count))


class Fact:
    def __init__(self, n):
        begin, statement, same, other = TEMPLATES[n // len(CUSTOMERS)]
        who = CUSTOMERS[n % len(CUSTOMERS)]
        self.value = f"{begin}-{1021 + 37 * n}"
        self.statement = statement.format(who=who, value=self.value)
        self.in_other_words = n % 3 == 2
        self.question = (other if self.in_other_words else same).format(who=who)
        # A third, and a third of those in other words.
        self.is_forgotten = (n + n // 3) % 3 == 1


class Model(http.server.BaseHTTPRequestHandler):
    """Chat completions. Its class variables are what it has seen."""

    protocol_version = "HTTP/1.1"
    facts, forgets = [], False
    requests = collections.Counter()
    in_flight = 0
    # By question, the text of the first request that asks it.
    asked = {}

    def log_message(self, *_):
        pass

    def do_POST(self):
        Model.in_flight += 1
        try:
            self.reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        finally:
            Model.in_flight -= 1

    def reply(self, body):
        texts = [json.dumps(message, ensure_ascii=False) for message in body["messages"]]
        text = "\n".join(texts)
        if body.get("tools"):
            self.requests["steps"] += 1
            inbox = next(shown for shown in reversed(texts) if "[INBOX" in shown)
            for fact in self.facts:
                if fact.question in inbox:
                    self.asked.setdefault(fact.question, text)
            calls = [("send_message", {"text": sentences(ANSWER, self.requests["steps"], 3)}), ("done", {"summary": "answered"})]
            calls = [
                {"index": at, "id": f"call-{at}", "type": "function",
                 "function": {"name": name, "arguments": json.dumps(arguments)}}
                for at, (name, arguments) in enumerate(calls)
            ]
            deltas = [({"role": "assistant", "tool_calls": calls}, None), ({}, "tool_calls")]
        else:
            self.requests["summaries"] += 1
            known = [f"- {fact.statement}" for fact in self.facts if fact.value in text and not (self.forgets and fact.is_forgotten)]
            summary = "\n".join(["## Facts", *known, "## State", "- The work of these cycles is done, and nothing is open."])
            deltas = [({"role": "assistant", "content": summary}, None), ({}, "stop")]
        tokens = (len(text) + len(json.dumps(body.get("tools") or ""))) // 4
        self.stream(deltas, {"prompt_tokens": tokens, "completion_tokens": 40, "total_tokens": tokens + 40})

    def stream(self, deltas, usage):
        chunk = lambda choices, **more: {"id": "stub", "object": "chat.completion.chunk", "choices": choices, **more}
        chunks = [chunk([{"index": 0, "delta": delta, "finish_reason": reason}]) for delta, reason in deltas]
        chunks.append(chunk([], usage=usage))
        lines = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(lines.encode())))
        self.end_headers()
        self.wfile.write(lines.encode())


class Server:
    """The real program, in a directory of its own."""

    def __init__(self, folder, model_url, window):
        self.log = pathlib.Path(folder) / "log.txt"
        command = [VIV, "up", "--json", "--model", "openai-compatible/stub", "--base-url", model_url,
                   "--context-window", str(window), "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
                                            env={**os.environ, "VIV_LOG": "info"})
        ready = json.loads(self.process.stdout.readline())
        self.url, self.key = ready["url"], ready["admin_key"]

    def ask(self, path, body=None):
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data, headers=headers), timeout=60) as answer:
            return json.load(answer)

    def cycle(self, text):
        """Posts a message and waits until the agent has answered, has written its summary, and sleeps."""
        before = self.ask("/v1/agents/ada")["cycles"]
        self.ask("/v1/spaces/home/messages", {"text": text, "sender": "owner"})
        until = time.monotonic() + 60
        while time.monotonic() < until:
            agent = self.ask("/v1/agents/ada")
            if agent["cycles"] > before and agent["state"] == "sleeping":
                return self.summarized()
            time.sleep(0.002)
        sys.exit(f"the agent did not finish its cycle: {agent}")

    def summarized(self):
        """An agent sleeps while a summary is written, and the next message would interrupt that."""
        quiet = 0
        while quiet < QUIET_POLLS:
            quiet = 0 if Model.in_flight else quiet + 1
            time.sleep(0.002)

    def indexed(self):
        """Waits until searches find everything."""
        while self.ask("/v1/ready")["totals"]["unindexed_since"]:
            time.sleep(0.05)

    def all(self, path):
        cursor = ""
        while cursor is not None:
            page = self.ask(f"{path}?limit=200{cursor and '&cursor=' + cursor}")
            yield from page["items"]
            cursor = page["next"]

    def memory(self):
        """Megabytes: resident, and of them those that no file has."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return [int(re.search(rf"{name}:\s+(\d+)", status)[1]) / 1024 for name in ("VmRSS", "RssAnon")]

    def compactions(self):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text())
        lines = [line for line in plain.splitlines() if "[Compaction]" in line]
        return collections.Counter(re.search(r'method="?(\w+)', line)[1] for line in lines)


def tell(cycles, facts):
    """The messages: the facts are spread evenly over them."""
    for n in range(cycles):
        at = n * len(facts) // cycles
        told = f" For your records: {facts[at].statement}." if (n + 1) * len(facts) // cycles > at else ""
        yield f"Ticket {n} of {CUSTOMERS[n % len(CUSTOMERS)]}: {sentences(TICKET, n, 4)}{told}"


def live(server, options, facts):
    """All cycles; returns the memory at some of them."""
    shown = {options.cycles * tenths // 20: None for tenths in (2, 5, 10, 20)}
    begin = time.monotonic()
    for n, text in enumerate(tell(options.cycles, facts), 1):
        server.cycle(text)
        if n in shown:
            shown[n] = server.memory()
            seconds = time.monotonic() - begin
            print(f"cycle {n}: {shown[n][0]:.1f} MB resident, {shown[n][1]:.1f} MB anonymous, {seconds:.0f} s", flush=True)
    return list(shown.values())


def ask_back(server, facts):
    """What became of each fact, with whether it was asked for in other words."""
    fates = collections.Counter()
    for fact in facts:
        server.cycle(f"A question from the field: {fact.question}")
        server.indexed()
        query = urllib.parse.urlencode({"query": fact.question, "limit": HITS})
        hits = server.ask(f"/v1/agents/ada/recall?{query}")["items"]
        in_window = fact.value in Model.asked.get(fact.question, "")
        recalled = any(fact.value in hit["text"] for hit in hits)
        fate = "in the window" if in_window else "by recall" if recalled else "lost"
        fates[fate, fact.in_other_words] += 1
        fates["recall finds", fact.in_other_words] += recalled
    return fates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=2_000)
    parser.add_argument("--window", type=int, default=16_000)
    parser.add_argument("--summaries", choices=["keep", "forget"], default="forget",
                        help="whether the model keeps all facts in its summaries, or forgets a third")
    options = parser.parse_args()
    facts = [Fact(n) for n in range(FACTS)]
    Model.facts, Model.forgets = facts, options.summaries == "forget"
    stub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=stub.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, f"http://127.0.0.1:{stub.server_port}/v1", options.window)
        try:
            memory = live(server, options, facts)
            fates = ask_back(server, facts)
            steps = [step for run in server.all("/v1/agents/ada/runs") for step in run["steps"]]
            endings = collections.Counter(run["ending"] for run in server.all("/v1/agents/ada/runs"))
            largest = max(step["sent"]["tokens"] for step in steps if step.get("sent"))
            compactions = server.compactions()
        finally:
            server.process.terminate()
            server.process.wait()
    grown = memory[-1][1] - memory[0][1]
    print(f"requests: {dict(Model.requests)}; runs: {dict(endings)}; compactions: {dict(compactions)}")
    print(f"largest request: {largest} tokens of a window of {options.window}; memory grew by {grown:.1f} MB")
    for fate in ("in the window", "by recall", "lost", "recall finds"):
        same, other = fates[fate, False], fates[fate, True]
        print(f"facts {fate}: {same + other} of {FACTS} ({same} in the same words, {other} in other words)")
    is_sound = largest <= options.window and grown <= GROWTH_MAX and set(endings) == {"completed"}
    sys.exit(0 if is_sound else 1)


if __name__ == "__main__":
    main()
