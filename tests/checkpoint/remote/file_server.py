"""A web server that serves the files of a folder in ranges, with faults on demand."""

import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

SLOW_S = 0.2
RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class FileServer(ThreadingHTTPServer):
    """Serves the files of a folder, and more `contents` by path; None is an error.

    `faults` handles the next requests for values, first to last: "503", "cut" (half of the answer),
    "slow", "other range", "403", or "whole" (ignores the range). `requests` are the method, path
    and range (start, stop) of each. `before_answer` is called with the path of each.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.faults: list[str] = []
        self.requests: list[tuple[str, str, tuple[int, int] | None]] = []
        self.has_tags = True
        self.headers_seen: list[dict[str, str]] = []
        self.before_answer: Callable[[str], None] = lambda _: None
        self.contents: dict[str, bytes | None] = {}

    @property
    def url(self) -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, address: Any) -> None:
        """Print no error if a client refuses the certificate."""
        if not isinstance(sys.exception(), ssl.SSLError):
            super().handle_error(request, address)

    def fetched(self, ending: str = "") -> int:
        """Return the bytes of all ranges that were asked for of files whose names end so."""
        return sum(
            span[1] - span[0]
            for method, path, span in self.requests
            if method == "GET" and span and path.endswith(ending)
        )


@contextmanager
def serving(folder: Path, certificate: Path | None = None) -> Iterator[FileServer]:
    """Serve a folder in the background, by https if there is a file with a certificate and key."""
    server = FileServer(folder)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    with running(server):
        yield server


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        server, path = self.server, unquote(self.path.partition("?")[0])
        asked = RANGE.fullmatch(self.headers.get("Range", ""))
        span = (int(asked[1]), int(asked[2]) + 1) if asked else None
        server.requests.append((self.command, path, span))
        server.headers_seen.append(dict(self.headers))
        server.before_answer(path)
        file = server.folder / path.lstrip("/")
        if (name := path.lstrip("/")) in server.contents:
            content = server.contents[name]
            headers = {"Last-Modified": self.date_time_string()}
            self._send(500 if content is None else 200, content or b"", headers)
            return
        if not file.is_file():
            self._send(404)
            return
        status = file.stat()
        tag = f'"{status.st_size:x}-{status.st_mtime_ns:x}"'
        headers = {"ETag": tag} if server.has_tags else {}
        headers["Last-Modified"] = self.date_time_string(int(status.st_mtime))
        fault = server.faults.pop(0) if span and server.faults else ""
        if self.headers.get("If-Match", tag) != tag:
            self._send(412)
        elif fault.isdigit():
            self._send(int(fault))
        elif span is None or fault == "whole":
            self._send(200, file.read_bytes(), headers)
        else:
            time.sleep(SLOW_S if fault == "slow" else 0)
            start = span[0] + (fault == "other range")
            stop = min(span[1] + (fault == "other range"), status.st_size)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{status.st_size}"
            with file.open("rb") as opened:
                opened.seek(start)
                octets = opened.read(stop - start)
            self._send(206, octets, headers, cut=fault == "cut")

    def _send(
        self,
        code: int,
        octets: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        cut: bool = False,
    ) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(octets)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(octets[: len(octets) // 2] if cut else octets)
        self.close_connection = True  # or its thread would wait for more requests


PIECE = bytes(1 << 16)
Answer = Callable[[str], Iterable[bytes]]
"""A function of the lines of a request that returns the pieces of the answer."""


def endless(head: str) -> Answer:
    return lambda _: _endless(head.encode(), PIECE)


def endless_chunks(head: str) -> Answer:
    chunk = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
    return lambda _: _endless(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), chunk)


def dripping(head: str, octets: bytes, pause_s: float, nbytes: int = 1) -> Answer:
    def answer(_: str) -> Iterator[bytes]:
        yield head.encode()
        for start in range(0, len(octets), nbytes):
            time.sleep(pause_s)
            yield octets[start : start + nbytes]

    return answer


def _endless(head: bytes, piece: bytes) -> Iterator[bytes]:
    yield head
    while True:
        yield piece


class RawServer:
    """Answers each connection once, and counts the bytes that were sent, all answers together."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self._ended = answer, threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.requests: list[str] = []
        self.sent = 0
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        self._ended.set()
        for thread in self.threads:
            thread.join()
        self._socket.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            with suppress(TimeoutError):
                connection, _ = self._socket.accept()
                self.threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self.threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(1 << 16)
            self.requests.append(request.decode())
            for piece in self._answer(self.requests[-1]):
                if self._ended.is_set():
                    return
                connection.sendall(piece)
                self.sent += len(piece)


@contextmanager
def serving_raw(answer: Answer) -> Iterator[RawServer]:
    server = RawServer(answer)
    try:
        yield server
    finally:
        server.close()
