"""Twenty ordinary prompts to the agent of `make run-local`: how many it answers, and how long that takes.

Speaks to a running server (`make run-local`) through `viv say --wait`, as a person does, and prints each reply.

    python3 scripts/talk_local.py [--viv target/debug/viv] [--data-dir .viv] [--agent smol] [--prompts FILE]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import time

HERE = pathlib.Path(__file__).parent


def say(args, prompt):
    """The outcome of one prompt as `viv say --json` prints it, and the seconds that it took."""
    command = [args.viv, "say", "--wait", "--json", "--agent", args.agent, "--timeout", str(args.timeout)]
    if args.data_dir:
        command += ["--data-dir", args.data_dir]
    began = time.monotonic()
    ended = subprocess.run([*command, prompt], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    try:
        return json.loads(ended.stdout), seconds
    except json.JSONDecodeError:
        return {"reply": None, "error": ended.stderr.strip()}, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--viv", default="target/debug/viv")
    parser.add_argument("--data-dir")
    parser.add_argument("--agent", default="smol")
    parser.add_argument("--prompts", type=pathlib.Path, default=HERE / "prompts.txt")
    parser.add_argument("--timeout", type=int, default=120)
    args = parser.parse_args()
    prompts = args.prompts.read_text(encoding="utf-8").splitlines()
    took = []
    for number, prompt in enumerate(prompts, 1):
        outcome, seconds = say(args, prompt)
        reply = outcome.get("reply")
        if reply is not None:
            took.append(seconds)
        shown = reply or outcome.get("error") or f"(no reply; {outcome.get('ending')}: {outcome.get('reason')})"
        line = shown.replace("\n", " ")[:100]
        print(f"{number:2}. {prompt}\n    {seconds:5.1f} s  {line}", flush=True)
    median = f", median {statistics.median(took):.1f} s" if took else ""
    print(f"\nanswered {len(took)} of {len(prompts)}{median}")


if __name__ == "__main__":
    main()
