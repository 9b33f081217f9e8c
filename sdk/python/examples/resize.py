"""Serves the tool `resize`. Beside a running `viv up` with `tools/resize.toml`:

    VIV_KEY=viv_… PYTHONPATH=sdk/python python3 sdk/python/examples/resize.py
"""

from vivarium import Worker

worker = Worker()


@worker.tool("resize", version="1")
def resize(call):
    # The call's id is the same if the call is repeated: use it as the key of what is done.
    return {"url": f"https://images.example/{call.id}-{call.arguments['width']}.png"}


worker.run()
