"""A worker: threads that claim calls, one call each at a time, and renew the claim of a call while it runs."""

import http.client
import json
import logging
import os
import signal
import threading
import time
import urllib.error
import urllib.request
import uuid

log = logging.getLogger("vivarium")

# How long one claim waits for a call. A worker that is to stop waits for that, too: the call may be on its way.
WAIT_SECONDS = 5
# How long the client waits for the server's answer to a request.
REQUEST_SECONDS = 40
# Pauses while no server answers: the first, and the longest.
PAUSE_SECONDS = (0.1, 10.0)
# How long an answer is sent again while no server takes it: as long as a server waits for it.
ANSWERING_SECONDS = 15 * 60
# A server takes no longer body. It answers before it has read one, which urllib does not see.
BODY_BYTES = 1024 * 1024
# Longest text of an error.
ERROR_CHARACTERS = 16_000
# A claim is renewed this often within its time.
RENEWALS = 3
# Codes of refusals that may pass, and of those that say that a call is not this worker's any more.
PASSING = {"too_many_requests"}
OVER = {"claim_lost", "not_found"}


def written(body):
    """A body as a server reads it. Half of a character, which a text that was cut may end with, becomes U+FFFD."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def fitting(output):
    """The answer with that output, or with the reason why it cannot be sent."""
    try:
        size = len(written(output))
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": f"it ran, but its output is no JSON: {error}"[:ERROR_CHARACTERS]}
    if size > BODY_BYTES - 1024:
        return {"error": f"it ran, but its output has more than {BODY_BYTES - 1024} bytes as JSON"}
    return {"output": output}


class Refused(Exception):
    """The server refuses a request: another key, another version or a declared tool is needed."""

    def __init__(self, code, message):
        super().__init__(f"{message} ({code})")
        self.code = code


class Call:
    """A call to run."""

    def __init__(self, claimed):
        #: The id. It is the same if the call is repeated: the key of what is done.
        self.id = claimed["call"]
        #: The arguments; they fit the tool's schema.
        self.arguments = claimed["arguments"]
        #: The tool's name.
        self.tool = claimed["tool"]
        #: The agent that called.
        self.agent = claimed["agent"]
        #: ``read_only``, ``idempotent`` or ``unsafe``.
        self.effect = claimed["effect"]
        #: How often the call was claimed, this time included.
        self.times = claimed["times"]
        #: Set when the call is not this worker's any more: stop working on it.
        self.lost = threading.Event()
        self._claim = claimed["claim"]
        self._lease = claimed["lease_ms"] / 1000


class Worker:
    """Serves tools of kind ``worker``."""

    def __init__(self, url=None, key=None):
        self.url = (url or os.environ.get("VIV_URL") or "http://127.0.0.1:7878").rstrip("/")
        self._key = key or os.environ.get("VIV_KEY") or ""
        if not self._key:
            raise ValueError("a worker needs a key: `viv keys add worker:TOOL` makes one; set VIV_KEY to it")
        self._tools = {}
        self._stopping = threading.Event()
        self._refusal = None
        # Whether the server has ever let this worker claim: then a tool that is not found is being declared anew.
        self._served = False
        # No proxy from the environment: it would see the key.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def tool(self, name, version="1"):
        """Decorates the function that runs calls of the tool. What it returns is what the agent reads: a text or any other
        JSON. If it raises, the agent reads why."""

        def add(run):
            self._tools[name] = (version, run)
            return run

        return add

    def run(self, at_once=1, signals=True):
        """Serves until :meth:`stop`, or SIGTERM or SIGINT (unless ``signals`` is false). Then claims no more, and returns
        when the calls that it has are answered. Raises :class:`Refused` if the server refuses what this worker is."""
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(max(1, at_once))]
        for thread in threads:
            thread.start()
        # Each ends after its claim, which may bring a call. Waits in pieces, so that signals are handled.
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)
        if self._refusal:
            raise self._refusal

    def stop(self):
        """Claims no more calls."""
        self._stopping.set()

    def _serve(self):
        pause, claim = PAUSE_SECONDS[0], uuid.uuid4()
        while not self._stopping.is_set():
            try:
                claimed = self._claim(claim)
                pause, claim, self._served = PAUSE_SECONDS[0], uuid.uuid4(), True
                if claimed is not None:
                    self._run_call(Call(claimed))
            except Refused as refusal:
                declared_anew = self._served and refusal.code == "not_found"
                if refusal.code not in PASSING and not declared_anew:
                    self._refusal = refusal
                    self.stop()
                    return
                log.warning("no call is claimed at %s: %s", self.url, refusal)
                pause = self._rest(pause)
            except OSError as error:
                log.warning("no server answers at %s: %s", self.url, error)
                pause = self._rest(pause)

    def _rest(self, pause):
        self._stopping.wait(pause)
        return min(2 * pause, PAUSE_SECONDS[1])

    def _claim(self, claim):
        """Claims under this id; asking again after a lost answer gives the same call."""
        tools = [{"name": name, "version": version} for name, (version, _) in self._tools.items()]
        return self._post("claim", {"tools": tools, "claim": str(claim), "wait_ms": WAIT_SECONDS * 1000})

    def _run_call(self, call):
        over = threading.Event()
        threading.Thread(target=self._keep, args=(call, over), daemon=True).start()
        try:
            _, run = self._tools[call.tool]
            answer = fitting(run(call))
        # What a tool raises is the outcome of its call, whatever it is; also `sys.exit`, which would end this thread only.
        except (Exception, SystemExit) as error:
            log.exception("the call %s of %s failed", call.id, call.tool)
            answer = {"error": f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]}
        finally:
            over.set()
        # Also if the claim is lost: the agent may have been told that nobody knows.
        self._answer(call, answer)

    def _keep(self, call, over):
        """Renews the claim until the call is over, or lost."""
        while not over.wait(call._lease / RENEWALS):
            try:
                self._post("renew", {"call": call.id, "claim": call._claim})
            except Refused as refusal:
                if refusal.code in OVER:
                    call.lost.set()
                    return
            except OSError:
                # The call goes on: its answer counts unless another worker has it by then.
                pass

    def _answer(self, call, answer):
        """Sends the answer until it arrives, or is worth nothing."""
        body = {"call": call.id, "claim": call._claim, **answer}
        began, pause = time.monotonic(), PAUSE_SECONDS[0]
        while True:
            try:
                self._post("finish", body)
                return
            except Refused as refusal:
                if refusal.code in OVER:
                    return
                if refusal.code not in PASSING:
                    # The agent reads it, if that is not refused, too.
                    if "output" not in body:
                        log.error("the answer to %s is refused: %s", call.id, refusal)
                        return
                    del body["output"]
                    body["error"] = f"it ran, but its output was refused: {refusal}"
                    continue
            except OSError as error:
                log.warning("the answer to %s waits for a server: %s", call.id, error)
            if time.monotonic() - began > ANSWERING_SECONDS:
                log.error("no server took the answer to %s", call.id)
                return
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS[1])

    def _post(self, route, body):
        request = urllib.request.Request(
            f"{self.url}/v1/workers/{route}",
            data=written(body),
            headers={"authorization": f"Bearer {self._key}", "content-type": "application/json"},
        )
        try:
            status, text = self._exchange(request)
        except (OSError, http.client.HTTPException) as error:
            raise OSError(str(error) or type(error).__name__) from None
        # A server that is overloaded or stopping is as good as none.
        if status >= 500:
            raise OSError(f"the server answered {status}")
        if status >= 400:
            try:
                problem = json.loads(text)
                raise Refused(problem["code"], problem.get("detail") or problem["code"]) from None
            except (ValueError, KeyError, TypeError):
                raise OSError(f"the server answered {status}, and is not Vivarium") from None
        if not text:
            return None
        try:
            return json.loads(text)
        except ValueError:
            raise OSError("the server's answer is not JSON, and it is not Vivarium") from None

    def _exchange(self, request):
        """The status and the body of the server's answer."""
        try:
            with self._open(request, timeout=REQUEST_SECONDS) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
