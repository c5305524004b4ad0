from __future__ import annotations

import os
from pathlib import Path

import pytest

from prune_gui.gui.runtime.single_instance import OpenRequest, activation_token


def test_a_request_survives_as_a_line_with_any_path():
    undecodable = Path(os.fsdecode(b"/tmp/\xff\n.pt"))
    request = OpenRequest(checkpoint=undecodable, recipe=Path("/r.yaml"), methods=(Path("/m.py"),))
    line = request.to_line()
    assert line.count(b"\n") == 1
    assert OpenRequest.from_line(line) == request


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"GET / HTTP/1.1\r",
        b"[]",
        b"3",
        b'{"checkpoint": 3}',
        b'{"checkpoint": "relative.pt"}',
        b'{"checkpoint": "/nul\\u0000.pt"}',
        b'{"methods": "/m.py"}',
        b'{"token": "' + b"x" * 2_000 + b'"}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_request_is_an_error(line):
    with pytest.raises(ValueError, match=r"."):
        OpenRequest.from_line(line)


def test_the_token_of_wayland_is_preferred_to_that_of_x11():
    both = {"XDG_ACTIVATION_TOKEN": "wayland", "DESKTOP_STARTUP_ID": "x11"}
    assert activation_token(both) == "wayland"
    assert activation_token({"DESKTOP_STARTUP_ID": "x11"}) == "x11"
    assert activation_token({}) == ""
