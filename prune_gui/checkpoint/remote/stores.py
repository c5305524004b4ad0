"""Requests to object stores and web servers that read."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from socket import gaierror
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from prune_gui.checkpoint.remote.buckets import (
    FIRST_PAUSE_S,
    awaited,
    check_installed,
    located,
)
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
    from collections.abc import Callable

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

    Attributes:
        tag: the ETag, or the time of the last change if the server has no ETags.
    """

    size: int
    tag: str

    @classmethod
    def of(cls, meta: Any) -> FileState:  # noqa: ANN401
        """Return the state in the answer to a request."""
        return cls(meta["size"], meta["e_tag"] or meta["last_modified"].isoformat())

    def options(self, start: int, stop: int) -> GetOptions:
        """Return the options of a request for a range, which is refused if the file was changed."""
        if self.tag.startswith('"'):
            return {"range": (start, stop), "if_match": self.tag}
        return {"range": (start, stop)}


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
    """The content of a remote folder.

    Attributes:
        files: the size in bytes of each file, by name.
        folders: the names of the folders in it.
    """

    files: dict[str, int]
    folders: list[str]


class FilePart(NamedTuple):
    """Bytes of a remote file, as they were answered.

    Attributes:
        span: which bytes they are, as (start, stop).
    """

    state: FileState
    span: tuple[int, int]
    octets: bytes


def file_state(url: str) -> FileState:
    """Return the state of a remote file."""
    ask = partial(_web_state, *web) if (web := _web(url)) else partial(_stored_state, url)
    return _asked(url, ask)


def read_range(url: str, start: int, stop: int, state: FileState) -> bytes:
    """Return the bytes from `start` to `stop` of a remote file."""
    read = partial(_web_part, *web) if (web := _web(url)) else partial(_stored_part, url)

    def ask() -> bytes | None:
        part = read(stop - start, (start, stop), state)
        if part.state != state:
            raise ChangedError(url)
        return part.octets if part.span == (start, stop) and _is_complete(part) else None

    return _asked(url, ask)


def read_small(url: str, limit: int) -> bytes | None:
    """Return the contents of a remote file, None if it does not exist."""
    read = partial(_web_part, *web) if (web := _web(url)) else partial(_stored_part, url)

    def ask() -> bytes | None:
        part = read(limit, None, None)
        return part.octets if _is_complete(part) else None

    try:
        return _asked(url, ask)
    except MissingError:
        return None


def _web_state(url: str, token: str) -> FileState:
    """Return the state of a file on a web server."""
    return _state_of(request("HEAD", url, token, {}, HTTPStatus.OK, 0), 0)


def _web_part(
    url: str, token: str, limit: int, span: tuple[int, int] | None, state: FileState | None
) -> FilePart:
    """Return bytes of a file on a web server, all of them if there is no span."""
    if span is None or state is None:
        answer = request("GET", url, token, {}, HTTPStatus.OK, limit)
        nbytes = len(answer.octets)
        found = _state_of(answer, nbytes)
        return FilePart(found, (0, found.size), answer.octets)
    headers = {"range": f"bytes={span[0]}-{span[1] - 1}"}
    if state.tag.startswith('"'):
        headers["if-match"] = state.tag
    answer = request("GET", url, token, headers, HTTPStatus.PARTIAL_CONTENT, limit)
    if answer.status != HTTPStatus.PARTIAL_CONTENT:
        raise RangesIgnoredError
    sent = CONTENT_RANGE.fullmatch(answer.headers["Content-Range"] or "")
    if sent is None:
        raise WebError
    first, last, size = (int(number[:20]) for number in sent.groups())
    return FilePart(FileState(size, _tag_of(answer)), (first, last + 1), answer.octets)


def _state_of(answer: Answer, nbytes: int) -> FileState:
    """Return the state in an answer, which may not tell the size if its body was read."""
    size = answer.headers["Content-Length"]
    if size is None and nbytes:
        return FileState(nbytes, "")
    if not WHOLE_NUMBER.fullmatch(size or ""):
        raise WebError
    return FileState(int(size), _tag_of(answer))


def _tag_of(answer: Answer) -> str:
    tag = answer.headers["ETag"] or answer.headers["Last-Modified"]
    if not tag:
        raise WebError
    return str(tag)


def _stored_state(url: str) -> FileState:
    """Return the state of an object."""
    import obstore  # optional

    store, path = located(url)
    return FileState.of(awaited(lambda _: obstore.head_async(store, path)))


def _stored_part(
    url: str, limit: int, span: tuple[int, int] | None, state: FileState | None
) -> FilePart:
    """Return bytes of an object, all of them if there is no span."""
    import obstore  # optional

    store, path = located(url)

    async def read(patience: Patience) -> FilePart:
        options = state.options(*span) if span and state else None
        answer = await obstore.get_async(store, path, options=options)
        octets = bytearray()
        if answer.range[1] - answer.range[0] > limit:
            raise TooLargeError
        async for piece in answer.stream(PIECE_BYTES):
            patience.advance(len(piece))
            octets += memoryview(piece)
        return FilePart(FileState.of(answer.meta), answer.range, bytes(octets))

    return awaited(read, limit)


def _may_pass(error: Exception) -> bool:
    """Return whether a request that failed may succeed when it is made again."""
    from obstore.exceptions import GenericError  # optional

    if isinstance(error, WebError):
        cause = error.__cause__
        passing = isinstance(cause, (OSError, HTTPException)) and not isinstance(cause, gaierror)
        return passing or str(error).startswith(PASSING_STATUS)
    return isinstance(error, GenericError)


def _is_complete(part: FilePart) -> bool:
    start, stop = part.span
    return len(part.octets) == stop - start


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
            octets = read_small(_hub_listing(url), MAX_LISTING_BYTES)
            return _hub_content(url, b"[]" if octets is None else octets)
    import obstore  # optional

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
    import obstore  # optional

    store, path = located(url)
    try:
        with suppress(FileNotFoundError):
            return int(obstore.head(store, path)["size"])
        return sum(each["size"] for page in obstore.list(store, f"{path}/") for each in page)
    except Exception as error:
        raise _explained(url, error) from error


def _hub_content(url: str, answer: bytes) -> Listing:
    """Return the content of a folder from the answer of the Hugging Face Hub."""
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
    """Return the name of a file or folder from its path."""
    return path.rstrip("/").rpartition("/")[2]


def _sleep(duration_s: float) -> None:
    end = time.monotonic() + duration_s
    while (remaining := end - time.monotonic()) > 0:
        check_cancelled()
        time.sleep(min(remaining, 0.05))


def is_denied(error: Exception | None) -> bool:
    """Return whether a request failed because permission is missing."""
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError  # optional

    status = STATUS.search(str(error))
    denied = (PermissionError, PermissionDeniedError, UnauthenticatedError)
    return isinstance(error, denied) or (status is not None and status[0].startswith(DENIED))


def _explained(url: str, error: Exception | None) -> CheckpointError:
    """Return the message for a failed request."""
    from obstore import exceptions  # optional

    name, status = _shown(url), STATUS.search(str(error))
    match error:
        case exceptions.PreconditionError():
            return ChangedError(name)
        case FileNotFoundError() | exceptions.NotFoundError():
            return MissingError(name)
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
    if status and status[0].startswith(MISSING):
        return MissingError(name)
    if status and status[0].startswith(CHANGED):
        return ChangedError(name)
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
        reason=status[0].strip() if status else tr("no complete answer"),
    )


def _shown(url: str) -> str:
    """Return a URL for messages, without the query of a listing."""
    return unquote(url.partition("?")[0])


def _web(url: str) -> tuple[str, str] | None:
    """Return the URL on a web server, and the token for it or ""; None for an object store."""
    parts = urlsplit(url)
    if parts.scheme == "hf":
        check_installed()
        name, _, inner = parts.path.strip("/").partition("/")
        name, _, revision = name.partition("@")
        path = f"{parts.netloc}/{name}/resolve/{revision or 'main'}/{inner}".rstrip("/")
        return f"{_hub()}/{quoted(path)}", _hub_token()
    if parts.scheme not in ("http", "https"):
        return None
    check_installed()
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin + quoted(parts.path), _hub_token() if origin == _hub() else ""


def _hub() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _hub_listing(url: str) -> str:
    parts = urlsplit(url)
    name, _, inner = parts.path.strip("/").partition("/")
    name, _, revision = name.partition("@")
    return f"{_hub()}/api/models/{parts.netloc}/{name}/tree/{revision or 'main'}/{inner}".rstrip(
        "/"
    )


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
