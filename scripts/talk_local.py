"""Twenty prompts to an agent on a small model, and what it made of them.

Speaks to a running server (`make run-local`) as any client would: makes an agent that is offered
`send_message`, `set_memories` and `done`, says twenty things to it through `viv say --wait`, and
reads the runs. Prints how often each tool was chosen, how many replies were valid, and the
tokens per second of the model calls.

    python3 scripts/talk_local.py [--viv target/debug/viv] [--data-dir .viv] [--timeout 120]
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROMPTS = [
    "Hello! Who are you?",
    "My name is Husam. Please remember it.",
    "What is two plus two?",
    "Remember that my favourite colour is green.",
    "Say good morning to me.",
    "What is the capital of France?",
    "Please remember that the meeting is at 3pm on Friday.",
    "Tell me a short fact about the sea.",
    "What is my name?",
    "Thank you, that is all for now. You are done.",
    "Write one line about spring.",
    "Remember that Ahmad likes detailed explanations.",
    "Is water wet?",
    "Give me three names for a cat.",
    "When is the meeting?",
    "Nothing to do here, just letting you know I am back.",
    "What does an apple look like?",
    "Remember: the server password rotates on Mondays.",
    "Say goodbye.",
    "You can stop now.",
]
TOOLS = ["send_message", "set_memories", "done"]
# A model this small follows examples better than rules.
INSTRUCTIONS = """You talk with one person. You answer what they say with send_message. What they ask you to remember you keep with set_memories. When they say that they are done or want nothing, you are done. Examples:
"That was all, you can stop." -> {"name": "done", "arguments": {}}
"Remember that I like tea." -> {"name": "set_memories", "arguments": {"memories": [{"key": "likes", "value": "tea"}]}}
"Hello!" -> {"name": "send_message", "arguments": {"text": "Hello! How are you today?"}}
"Remember that the bus leaves at nine." -> {"name": "set_memories", "arguments": {"memories": [{"key": "bus", "value": "leaves at nine"}]}}
"What is three plus one?" -> {"name": "send_message", "arguments": {"text": "Three plus one is four."}}
"Tell me about cats." -> {"name": "send_message", "arguments": {"text": "Cats are small and sleep a lot."}}
"""


def request(base, key, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    asked = urllib.request.Request(base + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)


def prepare(base, key, name):
    """The agent and its space; `you` is in it."""
    # The model seldom ends by itself, so an answer to every sender ends the cycle.
    limits, stop = {"max_steps": 2}, {"all_addressed": True}
    config = {"instructions": INSTRUCTIONS, "tools": TOOLS, "limits": limits, "stop": stop}
    request(base, key, "POST", "/v1/agents", {"name": name, "config": config})
    request(base, key, "POST", "/v1/spaces", {"name": name, "members": [name, "you"]})


def say(viv, data_dir, name, text, timeout):
    command = [viv, "say", "--wait", "--json", "--data-dir", data_dir, "--agent", name, "--space", name]
    command += ["--timeout", str(timeout), text]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return ended.returncode, json.loads(ended.stdout)
    except json.JSONDecodeError:
        return ended.returncode, {"ending": None, "reply": None, "error": ended.stderr.strip()}


def runs_of(base, key, name):
    runs, cursor = [], ""
    while cursor is not None:
        page = request(base, key, "GET", f"/v1/agents/{name}/runs?limit=100{cursor}")
        runs += page["items"]
        cursor = None if page["next"] is None else f"&cursor={page['next']}"
    return runs


def failures(base, key, name):
    """Calls that the runtime had to refuse: unknown tools, arguments that do not fit."""
    entries, after = [], 0
    while after is not None:
        page = request(base, key, "GET", f"/v1/agents/{name}/consciousness?limit=200&after={after}")
        entries += page["entries"]
        after = page["next"]
    parts = [part for entry in entries for part in entry["message"]["parts"]]
    results = [part for part in parts if part["type"] == "tool_result"]
    return len(results), sum(part["error"] for part in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--viv", default="target/debug/viv")
    parser.add_argument("--data-dir", default=os.environ.get("VIV_DATA_DIR", ".viv"))
    parser.add_argument("--timeout", type=int, default=120)
    chosen = parser.parse_args()
    try:
        with open(os.path.join(chosen.data_dir, "credentials.json"), encoding="utf-8") as file:
            credentials = json.load(file)
    except OSError as error:
        sys.exit(f"wanted a running server (`make run-local`), but {error}")
    base, key = credentials["url"], credentials["key"]
    name = f"talker-{int(time.time())}"
    prepare(base, key, name)

    endings, replied = collections.Counter(), 0
    for number, prompt in enumerate(PROMPTS, 1):
        code, outcome = say(chosen.viv, chosen.data_dir, name, prompt, chosen.timeout)
        endings[outcome.get("ending") or f"exit {code}"] += 1
        replied += outcome.get("reply") is not None
        shown = (outcome.get("reply") or outcome.get("error") or "(no reply)").replace("\n", " ")[:100]
        print(f"{number:2}. {prompt}\n    -> {shown}", flush=True)

    runs = runs_of(base, key, name)
    steps = [step for run in runs for step in run["steps"]]
    tools = collections.Counter(tool for step in steps for tool in step["tools"])
    attempts = sum(step["attempts"] for step in steps)
    calls, failed = failures(base, key, name)
    output = sum(step["usage"]["output"] or 0 for step in steps)
    seconds = sum(step["model_ms"] for step in steps) / 1000
    print(f"\nprompts {len(PROMPTS)}, answered {replied}, cycles {len(runs)}, endings {dict(endings)}")
    print(f"replies {len(steps)} valid of {attempts} generated; text without a call: {sum(not s['tools'] for s in steps)}")
    print(f"calls {calls}, of these refused or failed {failed}; chosen: {dict(tools)}")
    if seconds:
        print(f"tokens per second {output / seconds:.1f} ({output} tokens in {seconds:.1f} s, prompt reading included)")


if __name__ == "__main__":
    try:
        main()
    except urllib.error.URLError as error:
        sys.exit(f"the server cannot be asked: {error}")
