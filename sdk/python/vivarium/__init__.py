"""Serves tools of a Vivarium server from Python: claims calls, runs them, and answers.

    from vivarium import Worker

    worker = Worker()  # the server of VIV_URL, with the key in VIV_KEY

    @worker.tool("resize", version="1")
    def resize(call):
        return {"url": make_smaller(call.arguments["url"], key=call.id)}

    worker.run()

Needs nothing but Python 3.8 or newer.
"""

from .worker import Call, Refused, Worker

__all__ = ["Call", "Refused", "Worker"]
