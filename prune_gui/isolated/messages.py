"""Messages between processes: JSON after its length in bytes, with descriptors beside a request.

Messages are not pickled, because the other process may send any bytes, and unpickling could run
code.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 1 << 24
RECEIVE_BYTES: Final = 1 << 16
MAX_DESCRIPTORS: Final = 4
POLL_INTERVAL_S: Final = 0.05
"""Interval between checks for cancellation and timeouts."""
READY: Final = b"."
"""Sent by a supervisor once its module is imported."""
REPORT: Final = struct.Struct("!iq")
"""The report of a supervisor: the exit code of a process, as in `subprocess.Popen.returncode`, and
the peak memory of the largest process that has ended in bytes."""
NO_START: Final = 1 << 30
"""Reported if a process cannot be started, plus errno."""
_LENGTH: Final = struct.Struct("!I")


def pack(message: object) -> bytes:
    """Return the bytes of a message."""
    octets = json.dumps(message).encode()
    return _LENGTH.pack(len(octets)) + octets


def send(connection: socket.socket, message: object, descriptors: Sequence[int] = ()) -> None:
    """Send a message; the other side gets copies of the descriptors."""
    octets = pack(message)
    connection.sendall(octets[socket.send_fds(connection, [octets], descriptors) :])


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """Wait for the next message; return it, and the descriptors that were passed with it."""
    descriptors: list[int] = []

    def read(size: int) -> bytes:
        octets = b""
        while len(octets) < size:
            received, passed, _, _ = socket.recv_fds(
                connection, size - len(octets), MAX_DESCRIPTORS
            )
            descriptors.extend(passed)
            if not received:
                raise ConnectionResetError
            octets += received
        return octets

    message = _unpack(read)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return message, descriptors


def ask(
    connection: socket.socket, request: object, wait: Callable[[], object], *descriptors: int
) -> Any:  # noqa: ANN401 - any JSON value
    """Send a request and return the reply of a process that may do anything.

    `wait` is called again and again until the reply has come; it waits for a moment, or until the
    connection can be read, and may raise. The process gets copies of the descriptors.

    Raises:
        ConnectionError: the process has closed the connection.
        ValueError: the reply is not a message, or longer than MAX_MESSAGE_BYTES.
    """

    def read(size: int) -> bytes:
        octets = bytearray()
        while len(octets) < size:
            try:
                received = connection.recv(min(size - len(octets), RECEIVE_BYTES))
            except BlockingIOError:
                wait()
                continue
            if not received:
                raise ConnectionResetError
            octets += received
        return bytes(octets)

    connection.settimeout(POLL_INTERVAL_S)
    unsent = memoryview(pack(request))
    if descriptors:
        unsent = unsent[socket.send_fds(connection, [unsent], descriptors) :]
    while unsent:
        try:
            unsent = unsent[connection.send(unsent) :]
        except TimeoutError:
            wait()
    connection.setblocking(False)
    return _unpack(read)


def readable(files: Sequence[Any], timeout_s: float) -> list[Any]:
    """Wait until some of the files, which have a `fileno`, can be read; return these."""
    from multiprocessing import connection  # supervisors do without

    return connection.wait(files, timeout_s)


def _unpack(read: Callable[[int], bytes]) -> Any:  # noqa: ANN401 - any JSON value
    """Read a message with a function that returns exactly as many bytes as its argument."""
    [length] = _LENGTH.unpack(read(_LENGTH.size))
    if length > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {length} bytes")
    try:
        return json.loads(read(length))
    except RecursionError as error:
        raise ValueError("a message that is nested too deeply") from error
