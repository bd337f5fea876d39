"""Serves a desk on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyhands._base.extras import install_command
from manyhands.desk.desk import Desk

#: Seconds in which a connection must begin its request, and after which an idle one is closed.
_BEGINNING, _IDLE = 15.0, 30
#: Connections at a time; more are answered with 503.
_MOST_CONNECTIONS = 256
#: Seconds for requests that are under way when the desk is stopped.
_ENDING = 5
#: Characters of a token.
_TOKEN = 43


def serve(
    desk: Desk,
    *,
    port: int = 8765,
    images: str | os.PathLike[str] | None = None,
    blind: bool = True,
    title: str = "",
    person: str = "",
    ready: Callable[[str], None] = print,
) -> None:
    """Serve a desk on 127.0.0.1 until Ctrl-C.

    Needs the extra ``desk``.

    Parameters
    ----------
    desk : Desk
        The desk.
    port : int, default 8765
        The port; 0 for a free one.
    images : path, optional
        Folder of image files that tasks show by name.
    blind : bool, default True
        Whether votes are hidden until the task is decided.
    title, person : str
        The log's name, and the adjudicator's until one is entered.
    ready : callable
        Called with the address, token included, when requests are answered.
    """
    server, listener, address = prepare(desk, port, images, blind=blind, title=title, person=person)
    with contextlib.closing(listener):
        asyncio.run(run(server, listener, lambda: ready(address)))


def prepare(
    desk: Desk,
    port: int,
    images: str | os.PathLike[str] | None = None,
    *,
    blind: bool = True,
    title: str = "",
    person: str = "",
) -> tuple[Any, socket.socket, str]:
    """Return a server that is not started yet, the socket it listens on, and its address."""
    uvicorn = libraries()
    from manyhands.desk.app import app

    folder = check_images(images)
    token = _token(desk.folder)
    listener = _listening(port)
    port = listener.getsockname()[1]
    config = uvicorn.Config(
        app(desk, token, port=port, images=folder, blind=blind, title=title, person=person),
        http=_protocol(),
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_ENDING,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    return uvicorn.Server(config), listener, f"http://127.0.0.1:{port}/?token={token}"


async def run(server: Any, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until the process is interrupted, or `server.should_exit` is set."""
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if not serving.done():
        ready()
    await serving


def libraries() -> Any:
    """Import what the server needs; raises with the command that installs it."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise ImportError(f"the desk needs {error.name}: {install_command('desk')}") from None
    return uvicorn


def check_images(images: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of images; raises where there is none."""
    if images is None:
        return None
    folder = Path(images)
    if not folder.is_dir():
        raise NotADirectoryError(f"the folder of images {str(folder)!r} does not exist")
    return folder


def check_port(port: int) -> None:
    """Raise if a port cannot be used."""
    _listening(port).close()


def _listening(port: int) -> socket.socket:
    """A socket that listens on this machine only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name != "nt":  # there, it would let two processes share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise OSError(
            f"port {port} cannot be used ({error.strerror}); choose another with --port, or 0 for a free one"
        ) from None
    return listener


def _token(folder: Path) -> str:
    """The token of a desk, kept in its folder: an open page reconnects after a restart."""
    path = folder / "token"
    with contextlib.suppress(OSError, ValueError):
        text = path.read_text("ascii").strip()
        if len(text) == _TOKEN and text.replace("-", "").replace("_", "").isalnum():
            return text
    text = secrets.token_urlsafe(32)
    part = folder / f".token-{secrets.token_hex(8)}"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
    os.replace(part, path)
    return text


def _protocol() -> Any:
    """HTTP as uvicorn speaks it, with a limit to the time that a connection may take to begin a request."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._limit = self.loop.call_later(_BEGINNING, self._end_unless_begun)

        def _end_unless_begun(self) -> None:
            if getattr(self, "cycle", None) is None and not self.transport.is_closing():
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._limit.cancel()
            super().connection_lost(exc)

    return Protocol
