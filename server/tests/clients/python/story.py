"""What the stories of both Python clients share: a line of outcome for each step, the request for
a restart of the server, and an end to a story that hangs.

A story is run against Stele and against etcd, and the lines have to be the same: they hold neither
times nor ids nor revisions.
"""

import os
import signal
import sys
import time

signal.alarm(120)
HTTP, HTTPS, PKI = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
PASSWORD = "a secret"


def pki(name):
    return os.path.join(PKI, name)


def tell(step, *outcome):
    print(f"{step}:", *outcome, flush=True)


def refused(call, *args, **kwargs):
    """What the server said to the call, which it has to refuse; or how the client puts it."""
    try:
        answer = call(*args, **kwargs)
    except Exception as error:
        if hasattr(error, "details"):
            return f"{error.code().name} {error.details()}"
        # etcd3gw: an answer, which has a reason besides its text, and not a lost connection.
        if getattr(error, "detail_text", None) and error.args:
            return error.detail_text.strip()
        return type(error).__name__
    raise AssertionError(f"{call} was not refused: {answer}")


def restart():
    """Returns when the server was killed and serves again."""
    print("restart", flush=True)
    assert sys.stdin.readline() == "restarted\n"


def until(call, *args, **kwargs):
    """Repeats what fails while the server comes back."""
    while True:
        try:
            return call(*args, **kwargs)
        except Exception:
            time.sleep(0.05)
