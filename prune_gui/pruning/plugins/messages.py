"""Messages between the program and its processes: commands to the fork server, JSON to plug-ins.

JSON after its length, because what comes from a plug-in's process may be anything, and pickle would
run it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

LIMIT_BYTES: Final = 1 << 24
_LENGTH: Final = struct.Struct("!I")

READY: Final = b"."
"""What the fork server says once it has loaded torch."""
REQUEST: Final = struct.Struct("!ci")
"""To the fork server: a command and a process."""
REPLY: Final = struct.Struct("!i")
FORK: Final = b"F"
"""Fork a process that serves the socket that comes along, and prints to the file that does. The
reply is its number, or -errno."""
POLL: Final = b"P"
"""Tell how a process ended, as `subprocess.Popen.returncode` does; the reply may be `RUNS`."""
KILL: Final = b"K"
"""End a process and what it started, if it runs still, and tell how it ended."""
RUNS: Final = 1 << 30
UNKNOWN: Final = RUNS + 1
"""How a process ended that is not there to ask."""


def pack(message: object) -> bytes:
    """Return a message as it is sent."""
    octets = json.dumps(message).encode()
    return _LENGTH.pack(len(octets)) + octets


def unpack(read: Callable[[int], bytes]) -> Any:  # noqa: ANN401 - whatever was sent
    """Return the next message.

    Args:
        read: returns exactly as many bytes as it is asked for.

    Raises:
        ValueError: this is no message.
    """
    [length] = _LENGTH.unpack(read(_LENGTH.size))
    if length > LIMIT_BYTES:
        raise ValueError(f"a message of {length} bytes")
    try:
        return json.loads(read(length))
    except RecursionError as error:
        raise ValueError("a message that is nested too deeply") from error
