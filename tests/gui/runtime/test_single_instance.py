"""The socket by which a later start of the program finds a running one."""

from __future__ import annotations

import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from prune_gui.gui.runtime import single_instance
from prune_gui.gui.runtime.single_instance import (
    ACCEPTED,
    MAX_REQUEST_BYTES,
    OpenRequest,
    SingleInstance,
    activation_token,
    server_name,
)

OTHER_PROGRAM = """
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("listening", flush=True)
peer, _ = server.accept()
peer.recv(1 << 16)
peer.sendall(sys.argv[2].encode())
peer.close()
"""
REQUEST = OpenRequest(checkpoint=Path("/models/some.safetensors"))


@pytest.fixture
def short_folder():
    """Return a new folder; the path of a socket must be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def runtime_folder(monkeypatch, short_folder):
    folder = short_folder / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def running(qapp):
    """Return a running program and the list of the requests that it received."""
    made = SingleInstance()
    requests = []
    made.requested.connect(requests.append)
    assert not made.hand_over(OpenRequest())
    yield made, requests
    made.close()
    made.deleteLater()


@pytest.fixture
def later(qapp):
    made = SingleInstance()
    yield made
    made.close()
    made.deleteLater()


@pytest.fixture
def connect(qtbot):
    """Return a function that connects to the running program, and sends bytes."""
    opened = []

    def connect_and_send(octets: bytes) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX)
        opened.append(peer)
        peer.connect(server_name())
        peer.settimeout(0.01)
        sent = 0
        while sent < len(octets):
            try:
                sent += peer.send(octets[sent : sent + (1 << 16)])
            except TimeoutError:
                qtbot.wait(1)
            except OSError:  # the program has closed the connection
                break
        return peer

    yield connect_and_send
    for peer in opened:
        peer.close()


def answer(qtbot, peer) -> bytes:
    """Return what a peer gets until the program closes the connection."""
    received = []

    def is_closed() -> bool:
        try:
            received.append(peer.recv(100))
        except TimeoutError:
            return False
        except OSError:
            return True
        return not received[-1]

    qtbot.waitUntil(is_closed, timeout=10_000)
    return b"".join(received)


def test_a_later_start_hands_its_files_over(running, qtbot, connect):
    assert answer(qtbot, connect(REQUEST.to_line())) == ACCEPTED
    assert running[1] == [REQUEST]


def test_the_request_may_arrive_in_pieces(running, qtbot, connect):
    long_request = OpenRequest(methods=[Path("/" + "m" * 30_000 + str(i)) for i in range(20)])
    line = long_request.to_line()
    peer = connect(line[:10])
    qtbot.wait(20)
    assert running[1] == []
    for start in range(10, len(line), 50_000):
        peer.sendall(line[start : start + 50_000])
        qtbot.wait(5)
    assert answer(qtbot, peer) == ACCEPTED
    assert running[1] == [long_request]


@pytest.mark.parametrize("garbage", [b"\0\xff\n", b"{}\r{\n", b"x" * (MAX_REQUEST_BYTES + 70_000)])
def test_garbage_is_refused_and_logged(running, qtbot, connect, caplog, garbage):
    with caplog.at_level(logging.WARNING):
        assert answer(qtbot, connect(garbage)) == b""
    assert "is ignored" in caplog.text
    assert running[1] == []
    assert answer(qtbot, connect(REQUEST.to_line())) == ACCEPTED


def test_a_silent_peer_is_disconnected(running, qtbot, connect, monkeypatch):
    monkeypatch.setattr(single_instance, "PEER_TIMEOUT_MS", 50)
    assert answer(qtbot, connect(b"{")) == b""
    assert not running[0]._peers


def test_too_many_peers_are_refused(running, qtbot, connect, caplog, monkeypatch):
    monkeypatch.setattr(single_instance, "MAX_PEERS", 2)
    waiting = [connect(b"{") for _ in range(2)]
    qtbot.waitUntil(lambda: len(running[0]._peers) == 2)
    assert answer(qtbot, connect(REQUEST.to_line())) == b""
    waiting[0].close()
    qtbot.waitUntil(lambda: len(running[0]._peers) == 1)
    assert answer(qtbot, connect(REQUEST.to_line())) == ACCEPTED


def test_only_the_user_can_connect(running, runtime_folder):
    path = Path(server_name())
    assert path.parent == runtime_folder
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def test_the_socket_of_a_crashed_program_is_replaced(later, qtbot, connect):
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(server_name())
    dead.close()
    requests = []
    later.requested.connect(requests.append)
    assert not later.hand_over(OpenRequest())
    assert answer(qtbot, connect(REQUEST.to_line())) == ACCEPTED
    assert requests == [REQUEST]


@pytest.mark.parametrize("reply", ["", "no\n", "o"])
def test_a_program_that_does_not_accept_is_left_alone(later, caplog, reply):
    # Another process: the blocking calls of Qt do not let other threads of Python run.
    command = [sys.executable, "-c", OTHER_PROGRAM, server_name(), reply]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        other.stdout.readline()  # it listens
        with caplog.at_level(logging.WARNING):
            assert not later.hand_over(REQUEST)
    assert "does not reply" in caplog.text
    assert not later._server.isListening()


def test_a_hanging_program_is_waited_for_in_vain(later, monkeypatch, caplog):
    monkeypatch.setattr(single_instance, "REPLY_TIMEOUT_MS", 100)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(server_name())
        other.listen()
        assert not later.hand_over(REQUEST)


def test_programs_with_other_settings_or_displays_have_other_sockets(monkeypatch):
    names = {server_name()}
    for variable in ("XDG_CONFIG_HOME", "DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "/other")
            names.add(server_name())
    assert len(names) == 5


def test_the_temporary_folder_is_used_without_a_runtime_folder(monkeypatch, short_folder):
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    for value in (None, "relative", "/" + "x" * 200):
        if value is None:
            monkeypatch.delenv("XDG_RUNTIME_DIR")
        else:
            monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        folder = Path(server_name()).parent
        assert folder == short_folder / f"prune-gui-{os.geteuid()}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_of_others_is_not_used(later, monkeypatch, short_folder, runtime_folder, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    runtime_folder.chmod(0o755)
    (short_folder / f"prune-gui-{os.geteuid()}").symlink_to(short_folder)
    with caplog.at_level(logging.WARNING):
        assert not later.hand_over(REQUEST)
    assert "private" in caplog.text
    assert not later._server.isListening()


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
