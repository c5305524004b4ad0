"""Requests to web servers, whose answers are read in pieces with limits on their size and time.

The body of an answer that says anything but "here are the bytes" is never read.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache, partial
from http import HTTPStatus
from http.client import HTTPException, responses
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, make_headers
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, SSLError

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
"""Connections to a server that are kept for further requests."""
FILE: Final = (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
REDIRECTS: Final = (301, 302, 303, 307, 308)
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

    The body is empty for a HEAD request, or if the status is not the one that was wanted.
    """

    status: int
    headers: Mapping[str, str]
    octets: bytes


class Patience:
    """Limits the time and the bytes of an answer, and looks whether the user cancels.

    `STALL_BYTES` have to arrive in `stall_s` seconds, in `STALL_S` if it is None.
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


_patience: ContextVar[Patience] = ContextVar("patience")
"""That of the request which this thread makes."""


def request(
    method: str, url: str, token: str, headers: Mapping[str, str], status: int, limit: int
) -> Answer:
    """Make a request, and follow redirects."""
    try:
        origin = _origin(url)
        for _ in range(MAX_REDIRECTS):
            own = token and _origin(url) == origin
            login = {"authorization": f"Bearer {token}"} if own else {}
            answer = _exchange(method, url, {**headers, **login}, status, limit)
            if answer.status in FILE:
                return answer
            if answer.status not in REDIRECTS:
                raise WebError(f"{answer.status} {responses.get(answer.status, 'Error')}")
            url = urljoin(url, answer.headers.get("Location", ""))
    except SSLError as error:
        untrusted = isinstance(error.args[0], ssl.SSLCertVerificationError)
        raise WebError(UNTRUSTED if untrusted else "") from error
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        raise WebError from error
    raise WebError


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]


def _exchange(method: str, url: str, headers: Mapping[str, str], status: int, limit: int) -> Answer:
    scheme, host, _ = _origin(url)
    proxy = "" if proxy_bypass(host) else getproxies().get(scheme, "")
    pools = _pools(proxy, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
    reset = _patience.set(Patience(MAX_HEADER_BYTES + MAX_OVERHEAD * limit))
    try:
        answer = pools.urlopen(
            method,
            url,
            headers=headers,
            redirect=False,
            retries=False,
            timeout=POLL_S,
            preload_content=False,
        )
        try:
            octets = _body(answer, limit) if answer.status == status else b""
        finally:
            answer.close()  # if it was read completely, its connection is in the pool by now
    finally:
        _patience.reset(reset)
    return Answer(answer.status, answer.headers, octets)


def _body(answer: BaseHTTPResponse, limit: int) -> bytes:
    """Return the body of an answer; that to a HEAD request is empty."""
    declared = answer.headers.get("Content-Length", "")
    if declared.isascii() and declared.isdigit():
        limit = min(limit, int(declared[:20]))
    octets = bytearray()
    while piece := answer.read(min(PIECE_BYTES, limit - len(octets) + 1), decode_content=False):
        octets += piece
        if len(octets) > limit:
            raise TooLargeError
    return bytes(octets)


class _Patient:
    """A socket that waits in short steps, of which each looks whether the request may go on."""

    def recv_into(self, *arguments: Any) -> int:  # noqa: ANN401 - as `socket.recv_into`
        """Read some bytes."""
        receive: Any = super().recv_into  # type: ignore[misc]
        nbytes: int = _repeat(partial(receive, *arguments))
        _patience.get().advance(nbytes)
        return nbytes

    def sendall(self, octets: Any, flags: int = 0) -> None:  # noqa: ANN401 - a buffer
        """Write bytes."""
        send: Any = super().send  # type: ignore[misc]
        while octets:
            octets = octets[_repeat(partial(send, octets, flags)) :]


class _Socket(_Patient, socket.socket):
    """A plain socket; see `_Patient`."""


class _EncryptedSocket(_Patient, ssl.SSLSocket):
    """An encrypted socket; see `_Patient`."""

    def do_handshake(self, block: bool = False) -> None:
        """Agree on the encryption."""
        _repeat(partial(super().do_handshake, block))


def _repeat(attempt: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the attempt returns
    while True:
        try:
            return attempt()
        except TimeoutError:
            _patience.get().check()


class _Connection(HTTPConnection):
    """A connection whose socket is patient; see `_Patient`."""

    def _new_conn(self) -> socket.socket:
        problem = OSError(self.host)
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise WebError from error
        for family, kind, protocol, _, address in found:
            channel = _Socket(family, kind, protocol)
            try:
                _connect(channel, address)
            except OSError as error:
                channel.close()
                problem = error
            except BaseException:
                channel.close()
                raise
            else:
                return channel
        raise problem


class _EncryptedConnection(_Connection, HTTPSConnection):
    """A connection whose encrypted socket is patient; see `_Patient`."""


def _connect(channel: socket.socket, address: Any) -> None:  # noqa: ANN401 - depends on the family
    channel.setblocking(False)
    channel.connect_ex(address)
    end = time.monotonic() + CONNECT_S
    while not select.select([], [channel], [channel], POLL_S)[1]:
        _patience.get().check()
        if time.monotonic() > end:
            raise TimeoutError
    if code := channel.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel.settimeout(POLL_S)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _EncryptedPool(HTTPSConnectionPool):
    ConnectionCls = _EncryptedConnection


@lru_cache(maxsize=4)
def _pools(proxy_url: str, *_: str | None) -> PoolManager:
    """Return the connections by way of a proxy, if there is one, with these certificates."""
    context = ssl.create_default_context()
    context.sslsocket_class = _EncryptedSocket
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath or sys.platform == "win32"):
        from botocore.httpsession import get_cert_path  # optional

        context.load_verify_locations(get_cert_path(True))
    proxy = urlsplit(proxy_url)
    pools = PoolManager(maxsize=MAX_IDLE, ssl_context=context)
    if proxy.hostname:
        login = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
        headers = make_headers(proxy_basic_auth=login) if proxy.username else None
        pools = ProxyManager(
            proxy_url, maxsize=MAX_IDLE, proxy_headers=headers, ssl_context=context
        )
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _EncryptedPool}
    return pools
