"""The desk over HTTP: the page, its API, and the protocol of Label Studio's webhooks and ML backends."""

from __future__ import annotations

import asyncio
import base64
import errno
import hmac
import json
import mimetypes
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from manyhands.desk import label_studio
from manyhands.desk.desk import LONGEST_NAME, LONGEST_NOTE, ConflictError, Desk
from manyhands.desk.openapi import document
from manyhands.desk.questions import AnswerError

_HERE = Path(__file__).parent
#: Bytes of a request, seconds to receive it, seconds to answer it.
MOST_BYTES = 8_000_000
RECEIVING = 15.0
ANSWERING = 60.0
#: Characters of texts that are longer than names.
_LONGEST = {"note": LONGEST_NOTE}
#: Logs that are aggregated at the same time.
_MOST_FITS = 2
#: What browsers may do with the page: nothing but itself.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_ASSETS = {"/page.js": "text/javascript", "/page.css": "text/css"}
#: Images that are served; SVG may contain scripts, which the policy stops.
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".avif", ".svg")


def app(
    desk: Desk,
    token: str,
    *,
    port: int = 0,
    images: Path | None = None,
    blind: bool = True,
    title: str = "",
    person: str = "",
) -> Starlette:
    """Return the desk as an ASGI application.

    Parameters
    ----------
    desk : Desk
        The desk.
    token : str
        What requests must carry: as ``?token=`` of the page, as a bearer token, or as the password of basic
        authentication.
    port : int
        The port it is served on: part of the name of the cookie, since browsers share cookies between ports.
    images : Path, optional
        Folder of image files that tasks show by name.
    blind : bool, default True
        Whether votes are hidden until the task is decided.
    title, person : str
        What the page shows as the log's name and as the adjudicator's before one is entered.
    """
    service = _Service(desk, images, blind, title, person)
    routes = [
        Route("/", service.page),
        *(Route(path, service.asset) for path in _ASSETS),
        Route("/health", service.health),
        Route("/openapi.json", service.openapi),
        Route("/session", service.session),
        Route("/progress", service.progress),
        Route("/explain", service.explain),
        Route("/image", service.image),
        Route("/next", service.next, methods=["POST"]),
        Route("/adjudicate", service.adjudicate, methods=["POST"]),
        Route("/skip", service.skip, methods=["POST"]),
        Route("/undo", service.undo, methods=["POST"]),
        Route("/release", service.release, methods=["POST"]),
        Route("/aggregate", service.aggregate, methods=["POST"]),
        Route("/setup", service.setup, methods=["POST"]),
        Route("/predict", service.predict, methods=["POST"]),
        Route("/webhook", service.webhook, methods=["POST"]),
    ]
    errors: dict[Any, Any] = {HTTPException: _http_error, Exception: _bug}
    starlette = Starlette(routes=routes, exception_handlers=errors)
    starlette.add_middleware(_Guard, token=token, cookie=f"manyhands-desk-{port}")
    return starlette


# ---------------------------------------------------------------------------------------------------------- guard


class _Guard:
    """Checks host, origin, token and size of every request, and adds the headers of security."""

    def __init__(self, inner: ASGIApp, token: str, cookie: str) -> None:
        self._inner, self._token, self._cookie = inner, token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [
                    (name.lower().encode(), value.encode())
                    for name, value in _HEADERS.items()
                    if name.lower().encode() not in names
                ]
            await send(message)

        answer = self._check(scope)
        if answer is None:
            request = Request(scope, receive)
            try:
                # The body is read before the work starts, and never more of it than is allowed.
                body = await asyncio.wait_for(_body(request), RECEIVING)
            except TimeoutError:
                answer = problem(408, f"the request did not arrive within {RECEIVING:g} seconds")
            except _TooLargeError:
                answer = problem(413, f"a request may have {MOST_BYTES:,} bytes")
        if answer is not None:
            answer.headers["Connection"] = "close"  # the rest of the request is not read
            await answer(scope, receive, send_with_headers)
            return
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def received() -> Message:
            return messages.pop() if messages else await receive()

        await self._inner(scope, received, send_with_headers)

    def _check(self, scope: Scope) -> Response | None:
        headers, query = Headers(scope=scope), QueryParams(scope["query_string"])
        # A page elsewhere could point its own name at this machine.
        if headers.get("host", "").rpartition(":")[0] not in ("127.0.0.1", "localhost", "[::1]"):
            return problem(421, "the host must be 127.0.0.1 or localhost")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return problem(413, f"a request may have {MOST_BYTES:,} bytes")
        if scope["path"] == "/health":
            return None
        if scope["path"] == "/" and "token" in query and self._is_token(query["token"]):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return answer
        if not self._is_token(self._token_of(headers, query)):
            if scope["path"] == "/":
                return Response(_LOCKED, 401, media_type="text/html")
            return problem(401, "the token is missing or wrong; open the address that the desk printed")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            return problem(403, "requests of other sites are not answered")
        return None

    def _token_of(self, headers: Headers, query: QueryParams) -> str:
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return rest.strip()
        if scheme.lower() == "basic":
            try:
                return base64.b64decode(rest, validate=True).decode("utf-8").partition(":")[2]
            except ValueError:
                return ""
        cookies = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        return next((value for name, _, value in cookies if name == self._cookie), query.get("token", ""))

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), self._token.encode())


class _TooLargeError(Exception):
    pass


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise _TooLargeError
    return bytes(body)


_LOCKED = """<!doctype html><html lang="en"><meta charset="utf-8"><title>manyhands desk</title>
<h1>This desk needs its token</h1><p>Open the address that <code>manyhands desk</code> printed.</p></html>"""


def problem(status: int, message: str) -> JSONResponse:
    """An error as JSON."""
    return JSONResponse({"error": message}, status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = problem(error.status_code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


async def _bug(request: Request, error: Exception) -> Response:
    return problem(500, f"internal error ({type(error).__name__}); the decision was not recorded")


# -------------------------------------------------------------------------------------------------------- service


class _Service:
    """The endpoints."""

    def __init__(self, desk: Desk, images: Path | None, blind: bool, title: str, person: str) -> None:
        self._desk, self._images, self._blind = desk, images, blind
        self._title, self._person = title, person
        self._fits = threading.BoundedSemaphore(_MOST_FITS)
        self._page = (_HERE / "page.html").read_bytes()
        self._assets = {path: (_HERE / path[1:]).read_bytes() for path in _ASSETS}

    # ------------------------------------------------------------------------------------------------ the page

    async def page(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html")

    async def asset(self, request: Request) -> Response:
        path = request.url.path
        return Response(self._assets[path], media_type=_ASSETS[path])

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(document())

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "UP", "model_class": "manyhands"})

    async def session(self, request: Request) -> Response:
        about = self._desk.question.about()
        images = self._images is not None
        return await _answer(
            lambda: (
                about
                | {"title": self._title, "person": self._person, "blind": self._blind, "images": images}
                | {"progress": self._desk.progress()}
            )
        )

    async def progress(self, request: Request) -> Response:
        return await _answer(self._desk.progress)

    # ------------------------------------------------------------------------------------------------ the work

    async def next(self, request: Request) -> Response:
        content = await _json(request)
        client = _text(content, "client", needed=True)

        def work() -> dict[str, Any]:
            task = self._desk.next(client)
            if task is not None:
                task["image"] = self._image(task["task"], task["shown"]) is not None
                if not self._blind:
                    task["answer"] = self._desk.question.proposed(task["row"])
                    task["votes"] = self._desk.question.given(task["row"])
            return {"task": task, "progress": self._desk.progress()}

        return await _answer(work)

    async def adjudicate(self, request: Request) -> Response:
        content = await _json(request)
        if "task" not in content or "answer" not in content:
            return problem(422, "a decision needs task and answer")
        words = {name: _text(content, name) for name in ("by", "client", "note")}

        def work() -> dict[str, Any]:
            outcome = self._desk.adjudicate(content["task"], content["answer"], **words)
            return {**outcome, "progress": self._desk.progress()}

        return await _answer(work)

    async def skip(self, request: Request) -> Response:
        content = await _json(request)
        if "task" not in content:
            return problem(422, "task is missing")
        words = {name: _text(content, name) for name in ("by", "client", "note")}

        def work() -> dict[str, Any]:
            self._desk.skip(content["task"], **words)
            return {"progress": self._desk.progress()}

        return await _answer(work)

    async def undo(self, request: Request) -> Response:
        content = await _json(request)
        words = {name: _text(content, name) for name in ("by", "client")}

        def work() -> dict[str, Any]:
            task = self._desk.undo(**words)
            task["image"] = self._image(task["task"], task["shown"]) is not None
            return {"task": task, "progress": self._desk.progress()}

        return await _answer(work)

    async def release(self, request: Request) -> Response:
        client = _text(await _json(request), "client", needed=True)

        def work() -> dict[str, Any]:
            self._desk.release(client)
            return {"released": True}

        return await _answer(work)

    async def explain(self, request: Request) -> Response:
        task = request.query_params.get("task")
        if task is None:
            return problem(422, "task is missing: /explain?task=…")

        def work() -> dict[str, Any]:
            if self._blind and not self._desk.is_decided(task):
                raise ConflictError(f"votes on {task!r} are hidden until it is decided (start the desk with --open)")
            return self._desk.explain(task)

        return await _answer(work)

    async def image(self, request: Request) -> Response:
        task = request.query_params.get("task")
        if task is None:
            return problem(422, "task is missing: /image?task=…")
        try:
            row = self._desk.question.row(task)
        except KeyError as error:
            return problem(404, str(error.args[0]))
        path = self._image(self._desk.question.task(row), self._desk.question.shown(row))
        if path is None:
            return problem(404, "the task has no image in the folder")
        return FileResponse(path, media_type=mimetypes.guess_type(path.name)[0])

    def _image(self, task: Any, shown: str | None) -> Path | None:
        """The image of a task in the folder: named by what it shows, else by its id."""
        if self._images is None:
            return None
        for name in (shown, str(task), *(f"{task}{ending}" for ending in _IMAGES)):
            if not name or "\0" in name or len(name) > 1000 or Path(name).suffix.lower() not in _IMAGES:
                continue
            path = (self._images / name).resolve()
            if path.is_relative_to(self._images.resolve()) and path.is_file():
                return path
        return None

    # --------------------------------------------------------------------------------------------- the service

    async def aggregate(self, request: Request) -> Response:
        content = await _json(request)
        rows, kind = content.get("rows"), content.get("kind")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
            return problem(422, "rows must be a list of objects such as {task, worker, label}")
        if kind is not None and not isinstance(kind, str):
            return problem(422, "kind must be a text")

        def work() -> dict[str, Any]:
            if not self._fits.acquire(timeout=ANSWERING / 2):
                raise _BusyError
            try:
                return label_studio.aggregate_rows(rows, kind)
            finally:
                self._fits.release()

        return await _answer(work)

    async def setup(self, request: Request) -> Response:
        await _json(request)
        return JSONResponse({"model_version": label_studio.version()})

    async def predict(self, request: Request) -> Response:
        content = await _json(request)
        return await _answer(lambda: label_studio.predict(self._desk, content))

    async def webhook(self, request: Request) -> Response:
        content = await _json(request)
        return await _answer(lambda: label_studio.webhook(self._desk, content))


class _BusyError(Exception):
    pass


async def _json(request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the content type must be application/json")
    try:
        content = json.loads(await request.body(), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {type(error).__name__}") from None
    if not isinstance(content, dict):
        raise HTTPException(422, "the body must be a JSON object")
    return content


def _reject_constant(name: str) -> Any:
    raise ValueError(name)


def _text(content: Mapping[str, Any], name: str, *, needed: bool = False) -> str:
    value = content.get(name, "")
    if not isinstance(value, str) or (needed and not value):
        raise HTTPException(422, f"{name} must be a text")
    if len(value) > _LONGEST.get(name, LONGEST_NAME):
        raise HTTPException(422, f"{name} is too long: {len(value):,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise HTTPException(422, f"{name} must be a text in Unicode") from None
    return value


async def _answer(work: Callable[[], dict[str, Any]]) -> Response:
    """Do the work in a thread, and say in JSON what came of it."""
    try:
        call: Awaitable[dict[str, Any]] = anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        return JSONResponse(await asyncio.wait_for(call, ANSWERING))
    except TimeoutError:
        return problem(504, f"there was no answer within {ANSWERING:g} seconds")
    except _BusyError:
        return problem(503, "too many logs are aggregated now; try again")
    except ConflictError as error:
        return problem(409, str(error))
    except AnswerError as error:
        return problem(422, str(error))
    except KeyError as error:
        return problem(404, str(error.args[0]))
    except OSError as error:
        return problem(507 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 500, f"not recorded: {error.strerror}")
    except (ValueError, TypeError, OverflowError) as error:
        return problem(422, str(error))
