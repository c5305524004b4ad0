"""Requests to object stores and web servers that read."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from socket import gaierror
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore import exceptions
from urllib3.exceptions import HTTPError

from prune_gui.checkpoint.remote.buckets import FIRST_PAUSE_S, awaited, located
from prune_gui.checkpoint.remote.web import (
    PIECE_BYTES,
    UNTRUSTED,
    Answer,
    Patience,
    RangesIgnoredError,
    TooLargeError,
    TooSlowError,
    WebError,
    request,
)
from prune_gui.errors import CheckpointError, PruneGuiError
from prune_gui.language import tr
from prune_gui.location import quoted
from prune_gui.monitor import check_cancelled

if TYPE_CHECKING:
    from obstore import GetOptions

log = logging.getLogger(__name__)
Found = TypeVar("Found")

TRIES: Final = 5
"""Attempts for a request whose answer was cut off or wrong."""
TRIES_S: Final = 60
"""No further attempt begins after so many seconds."""
STATUS: Final = re.compile(r"\b[45]\d\d\b [A-Z][A-Za-z ]+")
"""The status in an error message of `obstore`. The rest may hold signed URLs, and is not shown."""
DENIED: Final = ("401 ", "403 ")
"""How that status starts if permission is missing, which `obstore` does not say of a listing."""
MISSING: Final = ("404 ", "410 ")
CHANGED: Final = "412 "
PASSING_STATUS: Final = ("5", "408 ", "429 ")
"""How the status starts if a file is missing, was changed, or can be asked for again later."""
CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
WHOLE_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)
MAX_LISTING_BYTES: Final = 8_000_000
MAX_FILE_BYTES: Final = 1 << 62


class FileState(NamedTuple):
    """The state of a remote file, which detects changes.

    The tag is the ETag, or the time of the last change if the server has no ETags.
    """

    size: int
    tag: str

    @property
    def condition(self) -> str | None:
        """The ETag by which a request is refused if the file was changed."""
        return self.tag if self.tag.startswith('"') else None

    @classmethod
    def of_object(cls, meta: Any) -> FileState:  # noqa: ANN401 - a dictionary of obstore
        """Return the state in the answer of an object store."""
        return cls(meta["size"], meta["e_tag"] or meta["last_modified"].isoformat())

    @classmethod
    def of_answer(cls, answer: Answer) -> FileState:
        """Return the state in the answer of a web server."""
        size = answer.headers.get("Content-Length")
        if size is None and answer.octets:
            return cls(len(answer.octets), "")
        if not WHOLE_NUMBER.fullmatch(size or ""):
            raise WebError
        return cls(int(size or ""), _tag_of(answer))


class ChangedError(CheckpointError):
    """A remote file was changed since it was opened."""

    def __init__(self, url: str) -> None:
        super().__init__(tr("{file} was changed since it was opened. Open it again.", file=url))


class MissingError(CheckpointError):
    """A remote file does not exist."""

    def __init__(self, url: str) -> None:
        super().__init__(tr("{url} does not exist. Check the URL.", url=url))


class DeniedError(CheckpointError):
    """A remote file or folder cannot be read without permission."""


class Listing(NamedTuple):
    """The content of a remote folder: the size in bytes of each file, and the inner folders."""

    files: dict[str, int]
    folders: list[str]


class FilePart(NamedTuple):
    """Bytes of a remote file, as they were answered; the span (start, stop) says which they are."""

    state: FileState
    span: tuple[int, int]
    octets: bytes

    @property
    def whole(self) -> bytes | None:
        """The bytes, None if some are missing."""
        return self.octets if len(self.octets) == self.span[1] - self.span[0] else None


def file_state(url: str) -> FileState:
    """Return the state of a remote file."""

    def ask() -> FileState:
        if web := _web(url):
            return FileState.of_answer(request("HEAD", *web, {}, HTTPStatus.OK, 0))
        return FileState.of_object(awaited(lambda _: obstore.head_async(*located(url))))

    return _asked(url, ask)


def read_range(url: str, start: int, stop: int, state: FileState) -> bytes:
    """Return the bytes from `start` to `stop` of a remote file."""

    def ask() -> bytes | None:
        part = _part(url, stop - start, (start, stop), state)
        if part.state != state:
            raise ChangedError(url)
        return part.whole if part.span == (start, stop) else None

    return _asked(url, ask)


def read_small(url: str, limit: int) -> bytes | None:
    """Return the contents of a remote file, None if it does not exist."""
    with suppress(MissingError):
        return _asked(url, lambda: _part(url, limit).whole)
    return None


def _part(
    url: str, limit: int, span: tuple[int, int] | None = None, state: FileState | None = None
) -> FilePart:
    """Return bytes of a file in a state, all of them if there is no span."""
    condition = state.condition if state else None
    if web := _web(url):
        return _web_part(*web, limit, span, condition)

    async def read(patience: Patience) -> FilePart:
        options: GetOptions = {}
        if span is not None:
            options["range"] = span
        if condition is not None:
            options["if_match"] = condition
        answer = await obstore.get_async(*located(url), options=options)
        octets = bytearray()
        if answer.range[1] - answer.range[0] > limit:
            raise TooLargeError
        async for piece in answer.stream(PIECE_BYTES):
            patience.advance(len(piece))
            octets += memoryview(piece)
        return FilePart(FileState.of_object(answer.meta), answer.range, bytes(octets))

    return awaited(read, limit)


def _web_part(
    url: str, token: str, limit: int, span: tuple[int, int] | None, condition: str | None
) -> FilePart:
    if span is None:
        answer = request("GET", url, token, {}, HTTPStatus.OK, limit)
        found = FileState.of_answer(answer)
        return FilePart(found, (0, found.size), answer.octets)
    headers = {"range": f"bytes={span[0]}-{span[1] - 1}"}
    if condition is not None:
        headers["if-match"] = condition
    answer = request("GET", url, token, headers, HTTPStatus.PARTIAL_CONTENT, limit)
    if answer.status != HTTPStatus.PARTIAL_CONTENT:
        raise RangesIgnoredError
    sent = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if sent is None:
        raise WebError
    first, last, size = map(int, sent.groups())
    return FilePart(FileState(size, _tag_of(answer)), (first, last + 1), answer.octets)


def _tag_of(answer: Answer) -> str:
    tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
    if not tag:
        raise WebError
    return tag


def _may_pass(error: Exception) -> bool:
    if isinstance(error, WebError):
        cause = error.__cause__
        passing = isinstance(cause, (HTTPError, HTTPException, OSError))
        passing = passing and not isinstance(cause, (gaierror, ValueError))
        return passing or str(error).startswith(PASSING_STATUS)
    return isinstance(error, exceptions.GenericError)


def _asked(url: str, ask: Callable[[], Found | None]) -> Found:
    """Return the answer to a request, which is repeated while it is None or fails for a while."""
    end = time.monotonic() + TRIES_S
    pause_s = FIRST_PAUSE_S
    problem: Exception | None = None
    for attempt in range(TRIES):
        try:
            if (found := ask()) is not None:
                return found
        except PruneGuiError:
            raise
        except Exception as error:
            if not _may_pass(error):
                raise _explained(url, error) from error
            problem = error
        if attempt == TRIES - 1 or time.monotonic() > end:
            break
        log.info("%s is asked again.", url)
        _sleep(pause_s)
        pause_s *= 2
    raise _explained(url, problem) from problem


def listing(url: str) -> Listing | None:
    """Return the content of a remote folder; None if the server cannot list it."""
    match urlsplit(url).scheme:
        case "http" | "https":
            return None
        case "hf":
            model, revision, inner = _hub_place(url)
            tree = f"{_hub()}/api/models/{model}/tree/{revision}/{inner}".rstrip("/")
            octets = read_small(tree, MAX_LISTING_BYTES)
            return _hub_content(url, b"[]" if octets is None else octets)
    store, path = located(url)
    try:
        listed = awaited(
            lambda _: obstore.list_with_delimiter_async(store, f"{path}/" if path else None)
        )
    except PruneGuiError:
        raise
    except Exception as error:
        raise _explained(url, error) from error
    folders = [_last(each) for each in listed["common_prefixes"]]
    files = {_last(each["path"]): each["size"] for each in listed["objects"]}
    for name in folders:  # an empty object with the name of a folder makes it visible
        files.pop(name, None)
    return Listing(files, folders)


def stored_nbytes(url: str) -> int:
    """Return the size of an object, or of all objects in a folder and the folders in it, in bytes.

    Raises:
        CheckpointError: the object store cannot be reached.
    """
    store, path = located(url)
    try:
        with suppress(FileNotFoundError):
            return int(obstore.head(store, path)["size"])
        return sum(each["size"] for page in obstore.list(store, f"{path}/") for each in page)
    except Exception as error:
        raise _explained(url, error) from error


def _hub_content(url: str, answer: bytes) -> Listing:
    try:
        entries = [
            (each["type"], _last(each["path"]), each.get("size", 0)) for each in json.loads(answer)
        ]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        entries = [("", "", -1)]
    names = [name for _, name, _ in entries]
    if len(set(names)) < len(names) or not all(
        type(size) is int and 0 <= size < MAX_FILE_BYTES for _, _, size in entries
    ):
        raise CheckpointError(
            "{url} cannot be opened: the list of its files is invalid. Open the URL of a file.",
            url=url,
        )
    files = {name: size for kind, name, size in entries if kind == "file"}
    return Listing(files, [name for kind, name, _ in entries if kind == "directory"])


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _sleep(duration_s: float) -> None:
    end = time.monotonic() + duration_s
    while (remaining := end - time.monotonic()) > 0:
        check_cancelled()
        time.sleep(min(remaining, 0.05))


def is_denied(error: Exception | None) -> bool:
    """Return whether a request failed because permission is missing."""
    status = STATUS.search(str(error))
    denied = (PermissionError, exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
    return isinstance(error, denied) or (status is not None and status[0].startswith(DENIED))


def _explained(url: str, error: Exception | None) -> CheckpointError:
    name = unquote(url.partition("?")[0])  # without the query of a listing
    found = STATUS.search(str(error))
    status = found[0].strip() if found else ""
    match error:
        case TooLargeError():
            return CheckpointError(
                "{url} is larger than it declares, or than it may be. Check the URL.", url=name
            )
        case TooSlowError():
            return CheckpointError(
                "{url} cannot be read: the server sends too slowly. Try again later, or "
                "download the file.",
                url=name,
            )
        case exceptions.NotSupportedError() | RangesIgnoredError():
            return CheckpointError(
                "{url} cannot be read in parts: the server ignores ranges. Download the file.",
                url=name,
            )
    if isinstance(error, exceptions.PreconditionError) or status.startswith(CHANGED):
        return ChangedError(name)
    missing = (FileNotFoundError, exceptions.NotFoundError)
    if isinstance(error, missing) or status.startswith(MISSING):
        return MissingError(name)
    if is_denied(error):
        return DeniedError(
            tr(
                "{url} cannot be read without permission. Set credentials in the environment "
                "or in the files of the provider, and open it again.",
                url=name,
            )
        )
    if UNTRUSTED in str(error):
        return CheckpointError(
            "{url} cannot be reached: its certificate is not trusted. If you trust it, name a "
            "file with it in the environment variable {variable}, and open it again.",
            url=name,
            variable="SSL_CERT_FILE",
        )
    return CheckpointError(
        "{url} cannot be reached: {reason}. Check the URL and the network, and open it again.",
        url=name,
        reason=status or tr("no complete answer"),
    )


def _web(url: str) -> tuple[str, str] | None:
    """Return the URL on a web server, and the token for it or ""; None for an object store."""
    parts = urlsplit(url)
    if parts.scheme == "hf":
        path = "{}/resolve/{}/{}".format(*_hub_place(url)).rstrip("/")
        return f"{_hub()}/{quoted(path)}", _hub_token()
    if parts.scheme not in ("http", "https"):
        return None
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin + quoted(parts.path), _hub_token() if origin == _hub() else ""


def _hub() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _hub_place(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    name, _, inner = parts.path.strip("/").partition("/")
    name, _, revision = name.partition("@")
    return f"{parts.netloc}/{name}", revision or "main", inner


def _hub_token() -> str:
    """Return the token of the Hugging Face Hub, from the environment or its file."""
    if token := os.environ.get("HF_TOKEN", ""):
        return token
    default = Path.home() / ".cache" / "huggingface"
    file = Path(os.environ.get("HF_HOME") or default) / "token"
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
