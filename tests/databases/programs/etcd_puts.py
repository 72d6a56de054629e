# SPDX-License-Identifier: Apache-2.0
"""Puts keys into etcd, four at a time, for some seconds; then prints its metrics."""

import base64
import http.client
import json
import sys
import threading
import time

seconds, port = float(sys.argv[1]), int(sys.argv[2])
until = time.monotonic() + seconds
VALUE = base64.b64encode(bytes(300)).decode()


def put(number: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    pair = {"key": base64.b64encode(b"%d" % number).decode(), "value": VALUE}
    while time.monotonic() < until:
        connection.request("POST", "/v3/kv/put", json.dumps(pair))
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200, reply.status


threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
connection = http.client.HTTPConnection("127.0.0.1", port)
connection.request("GET", "/metrics")
print(connection.getresponse().read().decode())
