"""A desk that is serving in this process, and a client for it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PATIENCE = 30


class Client:
    """Requests to a desk, as a program makes them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.token = address.partition("token=")[2]
        self.port = int(address.split(":")[2].partition("/")[0])

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            fields = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            fields |= {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {name: value for name, value in fields.items() if value})
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        status, _, body = self.raw("GET", path, **headers)
        return status, json.loads(body)

    def post(self, path: str, **content: Any) -> tuple[int, Any]:
        status, _, body = self.raw("POST", path, json.dumps(content).encode())
        return status, json.loads(body)


@contextmanager
def serving(desk: Any, port: int = 0, **settings: Any) -> Iterator[Client]:
    """Serve a desk in a thread."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from manyhands.desk.serve import prepare, run

    server, listener, address = prepare(desk, port, **settings)
    started = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(run(server, listener, started.set)))
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield Client(address)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listener.close()
