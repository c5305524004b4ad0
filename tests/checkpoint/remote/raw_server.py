"""A server that sends any bytes as its answers, as slowly or as endlessly as a test wants."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

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
