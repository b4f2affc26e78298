"""`Server`: the explorer on the loopback address; it answers requests of its own page only."""

import hmac
import json
import secrets
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from esan.checks import whole_number
from esan.explore.choice import Choice, FieldError, Reader, plain_choice
from esan.explore.page import content_security_policy, page
from esan.explore.view import view

#: The one address that is listened on: other machines cannot reach it.
LOOPBACK = "127.0.0.1"
#: Requests are small: two texts and two names.
MOST_BYTES = 100_000
#: Seconds that a client may take to send a request.
PATIENCE = 20.0


class Server:
    """The explorer on this machine; `url` opens it, and holds the token without which nothing is answered.

    Listens on the loopback address only; refuses other hosts and origins, so that no other page can use it; reads no
    file but those it was started with.

    Args:
        choice: what is shown first; None for the first story.
        files: the files that graphs may be read from, as the user wrote them.
        port: the port; 0 for any that is free.
    """

    def __init__(self, choice: Choice | None = None, files: Sequence[str] = (), port: int = 0) -> None:
        whole_number("port", port, 0, "Leave it out for a free one.", 65_535)
        self.token = secrets.token_urlsafe(24)
        self._reader = Reader(files)
        # One at a time: the work is on all cores already.
        self._working = threading.Lock()
        self._page = page(choice, token=self.token, names=tuple(files)).encode("utf-8")
        self._policy = content_security_policy(served=True) + "; frame-ancestors 'none'"
        try:
            self._http = _HTTPServer((LOOPBACK, port), _Handler)
        except OSError as error:
            raise OSError(
                f"Expected a port that is free (got {port}: {error.strerror}). Leave it out for any that is."
            ) from None
        self._http.server = self

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser may call this server."""
        return f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/?token={self.token}"

    def serve(self) -> None:
        """Answer until `close` is called, from another thread, or Ctrl-C."""
        self._http.serve_forever(poll_interval=0.2)

    def start(self) -> None:
        """Answer in a thread of its own."""
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- what it answers ------------------------------------------------------------------------------------------

    def allows(self, token: str | None) -> bool:
        """Whether that is the token, compared in constant time."""
        return token is not None and hmac.compare_digest(token.encode("utf-8"), self.token.encode("utf-8"))

    def answer(self, body: bytes) -> dict[str, Any]:
        """The view that a page asked for, or what is wrong with one of its fields."""
        try:
            sent = json.loads(body)
            with self._working:
                return {"view": view(Choice.of(**plain_choice(sent), reader=self._reader))}
        except FieldError as error:
            return {"error": {"field": error.field, "message": str(error)}}
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            return {"error": {"field": "view", "message": "Expected a request in JSON (got something else)."}}


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    server: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a browser that leaves before its answer is no error, and bugs are reported on the page."""


class _Handler(BaseHTTPRequestHandler):
    server_version = "esan"
    sys_version = ""
    timeout = PATIENCE

    @property
    def _explorer(self) -> Server:
        return cast(_HTTPServer, self.server).server

    def do_GET(self) -> None:
        if not self._is_own():
            return
        parts = urlsplit(self.path)
        if parts.path != "/":
            self._refuse(HTTPStatus.NOT_FOUND, "Expected the address / (got another).")
        elif not self._explorer.allows(parse_qs(parts.query).get("token", [None])[0]):
            self._refuse(HTTPStatus.FORBIDDEN, "Expected the address that esan explore printed, with its token.")
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self._explorer._page)

    def do_POST(self) -> None:
        if not self._is_own():
            return
        length = self.headers.get("Content-Length", "")
        if urlsplit(self.path).path.split("/") != ["", "view"]:
            self._refuse(HTTPStatus.NOT_FOUND, "Expected the address of a view (got another).")
        elif not self._explorer.allows(self.headers.get("X-Esan-Token")):
            self._refuse(
                HTTPStatus.FORBIDDEN, "Expected the token of this run. Reload the page from the printed address."
            )
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Expected application/json.")
        elif not length.isdecimal() or len(length) > 9:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Expected a Content-Length.")
        elif int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Expected at most {MOST_BYTES:,} bytes (got {length}).")
        else:
            self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        try:
            answer, status = self._explorer.answer(body), HTTPStatus.OK
        except Exception as error:  # a bug is reported on the page, and the server goes on
            message = f"This is a bug of esan ({type(error).__name__}: {error}), not of yours: please report it."
            answer, status = {"error": {"field": "view", "message": message}}, HTTPStatus.INTERNAL_SERVER_ERROR
        self._send(status, "application/json", json.dumps(answer, separators=(",", ":")).encode("utf-8"))

    def _is_own(self) -> bool:
        """Whether the request names this server and comes from its page; another host's name is DNS rebinding."""
        hosts = self._explorer.hosts
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "Expected the host that esan explore printed (got another).")
        elif origin is not None and origin not in [f"http://{host}" for host in hosts]:
            self._refuse(HTTPStatus.FORBIDDEN, "Expected a request of the explorer's own page (got another origin).")
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and self.command != "GET":
            self._refuse(HTTPStatus.FORBIDDEN, "Expected a request of the explorer's own page (got another site).")
        else:
            return True
        return False

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        # What was sent is not read: the connection ends here.
        self.close_connection = True
        if self.command == "POST" and status != HTTPStatus.FORBIDDEN:
            answer = {"error": {"field": "view", "message": message}}
            self._send(status, "application/json", json.dumps(answer).encode("utf-8"))
        else:
            self._send(status, "text/plain; charset=utf-8", message.encode("utf-8"))

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self._explorer._policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: the terminal is the user's."""
