"""Users of a model, in a pod: `python -c` gets the text of this file, so it needs nothing else.

CLIENTS threads ask for completions of TOKENS tokens at URL, each on a new connection, as soon as
the answer before it has come, but not more often than every PERIOD seconds. So there are always as
many requests as clients (PERIOD 0), or so many a second (a PERIOD longer than an answer takes).
"""

import http.client
import json
import os
import sys
import threading
import time

HOST, PORT = os.environ["URL"].rsplit(":", 1)
PERIOD = float(os.environ["PERIOD"])
BODY = json.dumps(
    {
        "model": os.environ["MODEL"],
        "prompt": "Hello",
        "max_tokens": int(os.environ["TOKENS"]),
        "min_tokens": int(os.environ["TOKENS"]),
        "ignore_eos": True,
    }
)
HEADERS = {"Content-Type": "application/json", "Connection": "close"}


def ask() -> None:
    connection = http.client.HTTPConnection(HOST, int(PORT), timeout=120)
    try:
        connection.request("POST", "/v1/completions", BODY, HEADERS)
        answer = connection.getresponse()
        answer.read()
        if answer.status != http.client.OK:
            raise http.client.HTTPException(answer.status)
    finally:
        connection.close()


def user() -> None:
    while True:
        started = time.monotonic()
        try:
            ask()
        except (OSError, http.client.HTTPException) as error:
            sys.stderr.write(f"{error!r}\n")
        time.sleep(max(0.01, PERIOD - (time.monotonic() - started)))


for _ in range(int(os.environ["CLIENTS"])):
    threading.Thread(target=user).start()
