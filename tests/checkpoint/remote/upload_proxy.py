"""A proxy in front of an object store, which does something to the uploads of parts."""

import http.client
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from file_server import running

SLOW_S = 0.3
MOTO_DATE = b"2010-11-10T20:48:33.000Z"
"""When each upload began, according to moto."""
S3_AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, "
    "Signature=0"
)
"""Moto does not check signatures."""


class UploadProxy(ThreadingHTTPServer):
    """Passes requests on to an object store; those of Google's API as requests of S3.

    `faults` handles the next uploads of a part, first to last: "503", "403", "cut" (the connection
    is closed without an answer), "slow", or "corrupt" (a byte is changed). Without `has_digests`,
    ETags do not tell the MD5 of an object, as in some stores. `before_answer` is called with the
    method and the path of each request.
    """

    daemon_threads = False  # closing waits for them

    def __init__(self, store: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = store
        self.faults: list[str] = []
        self.connections: list[socket.socket] = []
        self.has_digests = True
        self.requests: list[tuple[str, str]] = []
        self.before_answer: Callable[[str, str], None] = lambda *_: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request: socket.socket, client_address: object) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        """Ignore a client that was killed."""

    def shutdown(self) -> None:
        """Stop, also waiting for requests."""
        super().shutdown()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def upload_proxy(store: str) -> Iterator[UploadProxy]:
    proxy = UploadProxy(store)
    with running(proxy):
        yield proxy


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: UploadProxy

    def log_message(self, *_: object) -> None:
        pass

    def _pass_on(self) -> None:
        server = self.server
        nbytes = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(nbytes)
        self.close_connection = True  # or its thread would wait for more requests
        if len(body) < nbytes:  # the client was killed; the store would wait for the rest
            return
        server.requests.append((self.command, self.path))
        server.before_answer(self.command, self.path)
        is_part = self.command == "PUT" and "partNumber" in self.path
        fault = server.faults.pop(0) if is_part and server.faults else ""
        if fault == "cut":
            return
        if fault.isdigit():
            self._send(int(fault), {}, b"")
            return
        if fault == "corrupt":
            body = bytes([body[0] ^ 1]) + body[1:]
        time.sleep(SLOW_S if fault == "slow" else 0)
        connection = http.client.HTTPConnection(urlsplit(server.store).netloc)
        is_google = not self.headers.get("Authorization", "").removeprefix("Bearer ")
        headers = {
            name.lower().replace("x-goog-", "x-amz-"): text for name, text in self.headers.items()
        }
        if is_google:
            headers["authorization"] = S3_AUTHORIZATION
        if headers.get("x-amz-if-generation-match") == "0" and self._exists(headers):
            self._send(HTTPStatus.PRECONDITION_FAILED, {}, b"")
            return
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        headers = dict(answer.getheaders())
        if is_google:
            headers = {name.replace("x-amz-", "x-goog-"): text for name, text in headers.items()}
        if self.command == "POST" and not server.has_digests:
            content = re.sub(rb"[0-9a-f]{32}-\d+", b"opaque", content)
        content = content.replace(MOTO_DATE, datetime.now(UTC).isoformat().encode())
        self._send(answer.status, headers, content)
        connection.close()

    def _exists(self, headers: dict[str, str]) -> bool:
        """Return whether the object exists; S3 has no condition of this kind for copies."""
        connection = http.client.HTTPConnection(urlsplit(self.server.store).netloc)
        wanted = {"authorization": headers["authorization"]}
        connection.request("HEAD", urlsplit(self.path).path, headers=wanted)
        status = connection.getresponse().status
        connection.close()
        return status == HTTPStatus.OK

    def _send(self, code: int, headers: dict[str, str], octets: bytes) -> None:
        self.send_response_only(code)
        if self.command != "HEAD":
            headers = {**headers, "Content-Length": str(len(octets))}
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(octets)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815
