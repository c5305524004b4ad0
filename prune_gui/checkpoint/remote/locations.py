"""URLs of remote checkpoints, and the local paths that stand for them.

Every URL has a path in the cache folder of the program, from which it can be told again. So
whatever handles paths (sessions, recent files, the index of shards) handles remote checkpoints,
too. The files there are empty, or small copies, such as that of an index: no program can mistake
them for the remote file. Its values are in other files (see `blocks`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from platformdirs import user_cache_path

from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.redaction import redacted_url

SCHEMES: Final = ("https", "http", "s3", "gs", "az", "hf")
"""hf://OWNER/NAME[@REVISION]/FILE is a file of a model on the Hugging Face Hub."""
PLAIN: Final = "/@:+=,~"
"""Characters that a URL has as they are."""
MAX_URL_CHARS: Final = 2000
DOWNLOAD_QUERY: Final = "download=true"
"""The Hugging Face Hub appends it to the links that browsers download. It changes nothing."""


def cache_folder() -> Path:
    """Return the folder of everything that is kept of remote checkpoints."""
    return user_cache_path("prune-gui", appauthor=False) / "remote"


def uploads_folder() -> Path:
    """Return the folder where files are until they are uploaded."""
    return cache_folder() / "uploads"


def is_url(text: str) -> bool:
    """Return whether a text is meant as the URL of a remote file or folder."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def path_of(url: str) -> Path:
    """Return the local path that stands for a URL.

    Raises:
        CheckpointError: the URL is invalid, or carries credentials, which would be stored with it.
    """
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    segments = (
        [unquote(segment) for segment in parts.path.split("/") if segment] if is_valid else []
    )
    if not (is_valid and len(url) <= MAX_URL_CHARS and all(map(is_plain_name, segments))):
        raise CheckpointError(tr("{url!r} is not a valid URL. Check it.", url=redacted_url(url)))
    if "@" in parts.netloc or parts.query not in ("", DOWNLOAD_QUERY) or parts.fragment:
        raise _secret_error(url)
    host = parts.netloc.lower() if parts.scheme in ("http", "https") else parts.netloc
    return cache_folder().joinpath(parts.scheme, quote(host, safe=""), *segments)


def url_of(path: Path) -> str | None:
    """Return the URL that a local path stands for; None if it is an ordinary path."""
    root = cache_folder()
    if not path.is_relative_to(root):
        return None
    scheme, *parts = path.relative_to(root).parts or ("",)
    if scheme not in SCHEMES or not parts:
        return None
    authority, *segments = parts
    inner = quote("/".join(segments), safe=PLAIN)
    return f"{scheme}://{unquote(authority)}/{inner}".removesuffix("/")


def quoted(path: str) -> str:
    """Return the path of a URL of which some parts are quoted, all quoted."""
    return quote(unquote(path), safe=PLAIN)


def location(path: Path) -> str:
    """Return what to show for the path of a checkpoint: its URL if it is remote."""
    return url_of(path) or str(path)


def location_path(text: str | os.PathLike[str]) -> Path:
    """Return the path for a path or a URL.

    Raises:
        CheckpointError: see `path_of` and `check_path`.
    """
    if isinstance(text, str) and is_url(text):
        return path_of(text)
    check_path(text)
    return Path(text)


def check_path(path: str | os.PathLike[str]) -> None:
    """Check that a path is not a mistyped URL with credentials, which would be stored and shown.

    Raises:
        CheckpointError: it is.
    """
    text = os.fsdecode(path)
    if redacted_url(text) != text and not os.path.lexists(text):
        raise _secret_error(text)


def _secret_error(url: str) -> CheckpointError:
    return CheckpointError(
        tr(
            "{url!r} carries a password or a signature. Set credentials in the environment "
            "instead, and open the URL without them.",
            url=redacted_url(url),
        )
    )


def local_folder(path: Path) -> Path:
    """Return the folder for files that belong to a checkpoint; the home folder for a remote one."""
    return path.absolute().parent if url_of(path) is None else Path.home()


def is_plain_name(segment: str) -> bool:
    """Return whether a text is the name of one file or folder."""
    separators = {"/", "\\", "\0"}
    return segment.isprintable() and segment not in (".", "..") and separators.isdisjoint(segment)
