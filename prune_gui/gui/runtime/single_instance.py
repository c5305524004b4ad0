"""One running program per user, display and settings folder.

A later start sends its files to the running program and ends. The programs find each other by the
path of a local socket, in a folder that only the user can enter.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from platformdirs import user_config_path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from PySide6.QtCore import QLockFile, QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from prune_gui.session.state_file import StatePath

CONNECT_TIMEOUT_MS: Final = 1_000
REPLY_TIMEOUT_MS: Final = 8_000
"""A program that is just starting replies after it has shown its window."""
LOCK_TIMEOUT_MS: Final = 3_000
PEER_TIMEOUT_MS: Final = 5_000
"""Timeout for a peer to send its request."""
MAX_PEERS: Final = 32
"""Limit of the peers that have not sent their request yet."""
MAX_SOCKET_PATH_BYTES: Final = 100
"""Systems limit the path of a socket to 104 bytes or more."""
DISPLAY_VARIABLES: Final = ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY", "DISPLAY")
PRIVATE_MODE: Final = 0o700
ACCEPTED: Final = b"ok\n"
MAX_REQUEST_BYTES: Final = 1 << 20
MAX_TOKEN_CHARS: Final = 1_000
TOKEN_VARIABLES: Final = ("XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID")

log = logging.getLogger(__name__)


class SingleInstance(QObject):
    """Sends a request to the running program, or receives the requests of later starts.

    Nothing here raises an error: a program that cannot be reached, or cannot be found by others,
    opens its own window.
    """

    requested = Signal(object)  # (OpenRequest) a later start of the program wants to open files

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._accept)
        self._peers: set[QLocalSocket] = set()  # those whose request was not read yet

    def hand_over(self, request: OpenRequest) -> bool:
        """Send a request to the running program, and return whether it accepted it.

        If no program runs, this one receives the requests of later starts from now on.
        """
        try:
            name = server_name()
        except OSError as error:
            log.warning("Later starts cannot find this program: %s", error)
            return False
        # On Windows, the name is no path; elsewhere, it replaces the folder.
        lock = QLockFile(os.fspath(Path(tempfile.gettempdir()) / f"{name}.lock"))
        if not lock.tryLock(LOCK_TIMEOUT_MS):
            log.warning("Later starts cannot find this program: %s is locked", name)
            return False
        try:
            running = QLocalSocket()
            running.connectToServer(name)
            is_running = running.waitForConnected(CONNECT_TIMEOUT_MS)
            if not is_running:
                self._listen(name)
        finally:
            lock.unlock()
        return is_running and _is_accepted(running, request)

    def close(self) -> None:
        """Receive no more requests; the next start opens its own window."""
        self._server.close()
        for peer in list(self._peers):
            peer.abort()
        self._peers.clear()

    def _listen(self, name: str) -> None:
        QLocalServer.removeServer(name)  # the socket of a program that has crashed
        if not self._server.listen(name):
            log.warning("Later starts cannot find this program: %s", self._server.errorString())

    def _accept(self) -> None:
        while (peer := self._server.nextPendingConnection()) is not None:
            if len(self._peers) >= MAX_PEERS:
                log.warning("Too many programs are connected; one is refused")
                peer.abort()
                peer.deleteLater()
                continue
            self._peers.add(peer)
            peer.setReadBufferSize(MAX_REQUEST_BYTES + 1)
            peer.readyRead.connect(partial(self._read, peer))
            peer.disconnected.connect(partial(self._forget, peer))
            timer = QTimer(peer, singleShot=True, interval=PEER_TIMEOUT_MS)
            timer.timeout.connect(peer.abort)
            timer.start()
            self._read(peer)

    def _read(self, peer: QLocalSocket) -> None:
        if peer not in self._peers:  # its request was read already
            peer.readAll()
            return
        if not peer.canReadLine() and peer.bytesAvailable() <= MAX_REQUEST_BYTES:
            return
        try:
            request = OpenRequest.from_line(bytes(peer.readLine().data()))
        except ValueError as error:
            log.warning("A request of another program is ignored: %s", error)
            peer.abort()
            return
        self._peers.remove(peer)
        peer.write(ACCEPTED)
        peer.flush()
        peer.disconnectFromServer()  # after the reply is sent
        self.requested.emit(request)

    def _forget(self, peer: QLocalSocket) -> None:
        self._peers.discard(peer)
        peer.deleteLater()


def server_name() -> str:
    """Return the path of the socket; on Windows, the name of the pipe."""
    settings = user_config_path("prune-gui", appauthor=False)
    display = [os.environ.get(name, "") for name in DISPLAY_VARIABLES]
    identity = os.environ.get("USERNAME", "") if sys.platform == "win32" else os.geteuid()
    key = repr((identity, os.fspath(settings.absolute()), display))
    name = f"prune-gui-{hashlib.sha256(os.fsencode(key)).hexdigest()[:16]}"
    if sys.platform == "win32":
        return name
    folders = [Path(tempfile.gettempdir()) / f"prune-gui-{os.geteuid()}"]
    runtime_folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime_folder):  # noqa: PTH117
        folders.insert(0, Path(runtime_folder))
    for folder in folders:
        path = os.fspath(folder / name)
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES and _is_private(folder):
            return path
    raise PermissionError("no folder for its socket is private to the user")


def _is_private(folder: Path) -> bool:
    """Return whether only the user can enter a folder; it is created if it is missing."""
    try:
        folder.mkdir(mode=PRIVATE_MODE, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    is_own = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(status.st_mode) and is_own


def _is_accepted(running: QLocalSocket, request: OpenRequest) -> bool:
    running.write(request.to_line())
    while running.bytesToWrite() and running.waitForBytesWritten(REPLY_TIMEOUT_MS):
        pass
    reply = b""
    while len(reply) < len(ACCEPTED) and running.waitForReadyRead(REPLY_TIMEOUT_MS):
        reply += running.readAll().data()
    if reply != ACCEPTED:
        log.warning("The running program does not reply: this start opens its own window")
    return reply == ACCEPTED


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("the path is relative")
    return path


AbsolutePath = Annotated[StatePath, AfterValidator(_check_absolute)]


class OpenRequest(BaseModel):
    """Files to open. All paths are absolute: the receiver has another working folder."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    checkpoint: AbsolutePath | None = None  # a file or folder; None to show the window only
    recipe: AbsolutePath | None = None
    methods: Annotated[tuple[AbsolutePath, ...], Field(max_length=100)] = ()
    token: Annotated[str, Field(max_length=MAX_TOKEN_CHARS)] = ""  # to raise a window

    def to_line(self) -> bytes:
        # pydantic's own JSON cannot hold surrogates, which occur in paths that are not UTF-8.
        return json.dumps(self.model_dump(), default=os.fspath).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> OpenRequest:
        if len(line) > MAX_REQUEST_BYTES:
            raise ValueError("it is too long")
        try:
            return cls.model_validate(json.loads(line))
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"]) from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def activation_token(environment: Mapping[str, str]) -> str:
    """Return the token that the desktop gave this start of the program, or ""."""
    tokens = (environment.get(name, "") for name in TOKEN_VARIABLES)
    return next((token for token in tokens if token), "")[:MAX_TOKEN_CHARS]
