"""A worker of the torture worlds: runs calls of the counted tools by telling the counter that they happened."""

import json
import os
import urllib.request

from vivarium import Worker

CALLS_AT_ONCE = 2
worker = Worker()
send = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def count(call):
    body = {"tool": call.tool, "ticket": call.arguments["ticket"], "claims": call.times}
    headers = {"content-type": "application/json", "idempotency-key": call.id}
    request = urllib.request.Request(os.environ["VIV_COUNTER"], json.dumps(body).encode(), headers)
    with send(request, timeout=30) as response:
        response.read()
    return "counted"


for effect in ["read", "idempotent", "unsafe"]:
    worker.tool(f"count_{effect}_by_worker")(count)

worker.run(at_once=CALLS_AT_ONCE)
