"""Messages between processes: binary commands to the fork server, JSON to plug-in processes.

A JSON message follows its length in bytes. Messages are not pickled, because a plug-in process may
send any bytes, and unpickling could run code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 1 << 24
_LENGTH: Final = struct.Struct("!I")

READY: Final = b"."
"""Sent by the fork server once it has imported torch."""
REQUEST: Final = struct.Struct("!ci")
"""To the fork server: a command and a pid."""
REPLY: Final = struct.Struct("!i")
FORK: Final = b"F"
"""Fork a process that serves the first passed descriptor, a socket, and prints to the second. The
reply is its pid, or -errno."""
POLL: Final = b"P"
"""Reply with the exit code of a process, as in `subprocess.Popen.returncode`, or `RUNS`."""
KILL: Final = b"K"
"""Kill a process and its process group if it still runs, and reply with its exit code."""
RUNS: Final = 1 << 30
UNKNOWN: Final = RUNS + 1
"""Reply about a process that the fork server does not know."""


def pack(message: object) -> bytes:
    """Return the bytes of a message."""
    octets = json.dumps(message).encode()
    return _LENGTH.pack(len(octets)) + octets


def unpack(read: Callable[[int], bytes]) -> Any:  # noqa: ANN401 - any JSON value
    """Read the next message.

    Args:
        read: returns exactly as many bytes as its argument.

    Raises:
        ValueError: the message is not valid, or longer than MAX_MESSAGE_BYTES.
    """
    [length] = _LENGTH.unpack(read(_LENGTH.size))
    if length > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {length} bytes")
    try:
        return json.loads(read(length))
    except RecursionError as error:
        raise ValueError("a message that is nested too deeply") from error
