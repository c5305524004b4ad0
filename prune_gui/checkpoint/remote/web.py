"""Requests to web servers, whose answers are read in pieces with limits on their size and time.

The body of an answer that says anything but "here are the bytes" is never read.
"""

from __future__ import annotations

import atexit
import http.client
import os
import select
import socket
import ssl
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from email.message import Message
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import chain
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from prune_gui.monitor import check_cancelled

POLL_S: Final = 0.1
"""How often a request that waits looks whether it is cancelled."""
CONNECT_S: Final = 10
STALL_S: Final = 30
STALL_BYTES: Final = 1 << 15
"""A request ends if less than this much arrives in so many seconds, unless it is complete."""
PIECE_BYTES: Final = 1 << 18
MAX_HEADER_BYTES: Final = 1 << 20
MAX_OVERHEAD: Final = 8
"""A server may send so many times the bytes of a body, which is in chunks, and so many before."""
MAX_REDIRECTS: Final = 10
MAX_IDLE: Final = 16
"""Connections that are kept for further requests."""
FILE: Final = (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
REDIRECTS: Final = (301, 302, 303, 307, 308)
AS_IT_IS: Final = "%/?:@!$&'()*+,;=[]~"
"""What redirects may contain; other characters are quoted."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
UNTRUSTED: Final = "InvalidCertificate"
"""What is in the text of an error if the certificate of the server is not trusted."""


class WebError(Exception):
    """A request failed. The text is the status, such as "404 Not Found", or empty."""


class TooLargeError(WebError):
    """A server sends more than it declares, or than is wanted."""


class TooSlowError(WebError):
    """A server sends too slowly."""


class RangesIgnoredError(WebError):
    """A server sends a whole file instead of a part."""


class Answer(NamedTuple):
    """What a server answered.

    Attributes:
        octets: the body; empty for a HEAD request, or if the status is not the one that was wanted.
    """

    status: int
    headers: Message
    octets: bytes


class Patience:
    """Limits the time and the bytes of an answer, and looks whether the user cancels.

    Args:
        budget: the bytes that may arrive.
        stall_s: in so many seconds, `STALL_BYTES` have to arrive; `STALL_S` if None.
    """

    def __init__(self, budget: int, stall_s: float | None = None) -> None:
        self._budget, self._stall_s = budget, STALL_S if stall_s is None else stall_s
        self._restart()

    def advance(self, nbytes: int) -> None:
        """Count bytes that arrived."""
        self._budget -= nbytes
        if self._budget < 0:
            raise TooLargeError
        self._missing -= nbytes
        if self._missing <= 0:
            self._restart()
        self.check()

    def check(self) -> None:
        """Check that the request may go on."""
        check_cancelled()
        if time.monotonic() > self._end:
            raise TooSlowError

    def _restart(self) -> None:
        self._end, self._missing = time.monotonic() + self._stall_s, STALL_BYTES


def request(
    method: str, url: str, token: str, headers: Mapping[str, str], status: int, limit: int
) -> Answer:
    """Make a request, and follow redirects."""
    try:
        return _followed(method, url, token, headers, status, limit)
    except ssl.SSLCertVerificationError as error:
        raise WebError(UNTRUSTED) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise WebError from error


def _followed(
    method: str, url: str, token: str, headers: Mapping[str, str], status: int, limit: int
) -> Answer:
    origin = _Origin.of(urlsplit(url))
    for _ in range(MAX_REDIRECTS):
        parts = urlsplit(url)
        own = token and _Origin.of(parts) == origin
        login = {"authorization": f"Bearer {token}"} if own else {}
        answer = _exchange(method, parts, {**headers, **login}, status, limit)
        if answer.status in FILE:
            return answer
        if answer.status not in REDIRECTS:
            phrase = http.client.responses.get(answer.status, "Error")
            raise WebError(f"{answer.status} {phrase}")
        url = urljoin(url, answer.headers["Location"] or "")
    raise WebError


class _Origin(NamedTuple):
    """Where a connection goes to."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, parts: SplitResult) -> _Origin:
        """Return the origin of a URL."""
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise ValueError(parts.scheme)
        return cls(parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme])


def _exchange(
    method: str, parts: SplitResult, headers: Mapping[str, str], status: int, limit: int
) -> Answer:
    """Make one request; see `request`."""
    origin = _Origin.of(parts)
    connection = _idle.take(origin) or _Connection(origin)
    connection.limit(Patience(MAX_HEADER_BYTES + MAX_OVERHEAD * limit))
    try:
        target = quote(urlunsplit(("", "", parts.path or "/", parts.query, "")), safe=AS_IT_IS)
        target = connection.prefix + target
        connection.request(method, target, headers={**headers, **connection.proxy_login})
        response = connection.getresponse()
        octets = _body(response, limit) if response.status == status else b""
    except BaseException:
        connection.close()
        raise
    if response.isclosed():
        _idle.give(origin, connection)
    else:
        connection.close()
    return Answer(response.status, response.headers, octets)


def _body(response: http.client.HTTPResponse, limit: int) -> bytes:
    """Return the body of an answer; that to a HEAD request is empty."""
    declared = response.headers.get("Content-Length", "")
    if declared.isascii() and declared.isdigit():
        limit = min(limit, int(declared[:20]))
    octets = bytearray()
    while piece := response.read(min(PIECE_BYTES, limit - len(octets) + 1)):
        octets += piece
        if len(octets) > limit:
            raise TooLargeError
    return bytes(octets)


class _Connection(http.client.HTTPConnection):
    """A connection to a server, which waits in short steps.

    Attributes:
        prefix: what stands before the path in a request: something if there is a proxy.
    """

    def __init__(self, origin: _Origin) -> None:
        scheme, host, port = origin
        self._encrypted_host = host if scheme == "https" else ""
        self.prefix, self.proxy_login = "", dict[str, str]()
        self.patience = Patience(MAX_HEADER_BYTES)
        proxy = urlsplit("" if proxy_bypass(host) else getproxies().get(scheme, ""))
        if not proxy.hostname:
            super().__init__(host, port)
            return
        super().__init__(proxy.hostname, proxy.port or DEFAULT_PORTS["http"])
        login = {}
        if proxy.username:
            text = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            login = {"proxy-authorization": f"Basic {b64encode(text.encode()).decode()}"}
        if self._encrypted_host:
            self.set_tunnel(host, port, login)
        else:
            self.prefix = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            self.proxy_login = login

    def connect(self) -> None:
        """Connect, through the proxy if there is one."""
        self.sock: Any = _connected(self.host, self.port, self.patience)
        if tunnel := getattr(self, "_tunnel_host", None) and getattr(self, "_tunnel", None):
            tunnel()
        if self._encrypted_host:
            context = _context(*map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
            self.sock = context.wrap_socket(
                self.sock, server_hostname=self._encrypted_host, do_handshake_on_connect=False
            )
            self.limit(self.patience)
            _repeat(self.sock.do_handshake, self.patience)

    def limit(self, patience: Patience) -> None:
        """Set what limits the next request."""
        self.patience = patience
        if self.sock is not None:
            self.sock.patience = patience


class _Patient:
    """A socket that waits in short steps, of which each looks whether the request may go on."""

    patience: Patience

    def recv_into(self, *arguments: Any) -> int:  # noqa: ANN401 - as `socket.recv_into`
        """Read some bytes."""
        receive: Any = super().recv_into  # type: ignore[misc]
        nbytes: int = _repeat(partial(receive, *arguments), self.patience)
        self.patience.advance(nbytes)
        return nbytes

    def sendall(self, octets: Any, flags: int = 0) -> None:  # noqa: ANN401 - a buffer
        """Write bytes."""
        send: Any = super().send  # type: ignore[misc]
        while octets:
            octets = octets[_repeat(partial(send, octets, flags), self.patience) :]


class _Socket(_Patient, socket.socket):
    """A plain socket; see `_Patient`."""


class _EncryptedSocket(_Patient, ssl.SSLSocket):
    """An encrypted socket; see `_Patient`."""


def _repeat(attempt: Callable[[], Any], patience: Patience) -> Any:  # noqa: ANN401
    """Return the result of an attempt, which is repeated while it times out."""
    while True:
        try:
            return attempt()
        except TimeoutError:
            patience.check()


def _connected(host: str, port: int, patience: Patience) -> _Socket:
    """Return a connected socket."""
    problem = OSError(host)
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        channel = _Socket(family, kind, protocol)
        channel.patience = patience
        try:
            _connect(channel, address, patience)
        except OSError as error:
            channel.close()
            problem = error
        except BaseException:
            channel.close()
            raise
        else:
            return channel
    raise problem


def _connect(channel: socket.socket, address: Any, patience: Patience) -> None:  # noqa: ANN401
    channel.setblocking(False)
    channel.connect_ex(address)
    end = time.monotonic() + CONNECT_S
    while not select.select([], [channel], [channel], POLL_S)[1]:
        patience.check()
        if time.monotonic() > end:
            raise TimeoutError
    if code := channel.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel.settimeout(POLL_S)


@lru_cache(maxsize=1)
def _context(*_: str | None) -> ssl.SSLContext:
    """Return what decides which certificates are trusted; the arguments are what it depends on."""
    context = ssl.create_default_context()
    context.sslsocket_class = _EncryptedSocket
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath or sys.platform == "win32"):
        from botocore.httpsession import get_cert_path  # optional

        context.load_verify_locations(get_cert_path(True))
    return context


class _Idle:
    """The connections that no request uses now. Thread-safe."""

    def __init__(self) -> None:
        self._connections: dict[_Origin, list[_Connection]] = {}
        self._lock = threading.Lock()

    def take(self, origin: _Origin) -> _Connection | None:
        """Return a connection that the server has not closed, and to which it has sent nothing."""
        with self._lock:
            waiting = self._connections.get(origin, [])
            while waiting:
                connection = waiting.pop()
                if not select.select([connection.sock], [], [], 0)[0]:
                    return connection
                connection.close()
        return None

    def give(self, origin: _Origin, connection: _Connection) -> None:
        """Keep a connection whose last answer was read completely, if it is still open."""
        if connection.sock is None:
            return
        with self._lock:
            self._connections.setdefault(origin, []).append(connection)
            total = sum(map(len, self._connections.values()))
            if total > MAX_IDLE:
                oldest = next(each for each in self._connections.values() if each)
                oldest.pop(0).close()

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for connection in chain.from_iterable(self._connections.values()):
                connection.close()
            self._connections.clear()


_idle: Final = _Idle()
close_idle: Final = _idle.close
atexit.register(close_idle)
