"""Where a checkpoint is: on this machine, or at a URL.

Every URL has a path in the cache folder of the program, from which it can be told again. So
sessions, recent files and the index of shards keep paths only. The files there are empty, or small
copies, such as that of an index: no program can mistake them for the remote file. Its values are in
other files (see `prune_gui.checkpoint.remote.fetched_blocks`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote, unquote, urlsplit

from platformdirs import user_cache_path

from prune_gui.errors import CheckpointError
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


def quoted(path: str) -> str:
    """Return the path of a URL of which some parts are quoted, all quoted."""
    return quote(unquote(path), safe=PLAIN)


def is_plain_name(segment: str) -> bool:
    """Return whether a text is the name of one file or folder."""
    separators = {"/", "\\", "\0"}
    return segment.isprintable() and segment not in (".", "..") and separators.isdisjoint(segment)


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a file or folder. As a text, it is what to show: the URL if it is remote.

    Attributes:
        path: the path on this machine; of a remote file or folder, the one that stands for it.
        url: the URL of a remote file or folder; None for a local one.
    """

    path: Path
    url: str | None = None

    @classmethod
    def of(cls, place: str | os.PathLike[str]) -> Self:
        """Return the location that the user or a program names by a path or a URL.

        Raises:
            CheckpointError: a URL is invalid, or it or what may be a mistyped one carries
                credentials, which would be stored and shown.
        """
        if isinstance(place, cls):
            return place
        if isinstance(place, str) and is_url(place):
            place = _path_of(place)
        text = os.fsdecode(place)
        if redacted_url(text) != text and not os.path.lexists(text):
            raise _secret_error(text)
        return cls.at(Path(place))

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the location of a path, which may stand for a URL."""
        return cls(path, _url_of(path))

    @property
    def name(self) -> str:
        """The name of the file or folder."""
        return self.path.name

    @property
    def parent(self) -> Self:
        """The folder that contains it."""
        return self.at(self.path.absolute().parent)

    @property
    def own_folder(self) -> Path:
        """The folder for files that belong to it; the home folder if it is remote."""
        return self.path.absolute().parent if self.url is None else Path.home()

    def __truediv__(self, name: str) -> Self:
        """Return the location of a file or folder in this folder."""
        return self.at(self.path / name)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return self.url or str(self.path)


def _path_of(url: str) -> Path:
    """Return the local path that stands for a URL; see `Location.of`."""
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    encoded = parts.path.split("/") if is_valid else ()
    segments = [unquote(segment) for segment in encoded if segment]
    if not (is_valid and len(url) <= MAX_URL_CHARS and all(map(is_plain_name, segments))):
        raise CheckpointError("{url!r} is not a valid URL. Check it.", url=redacted_url(url))
    if "@" in parts.netloc or parts.query not in ("", DOWNLOAD_QUERY) or parts.fragment:
        raise _secret_error(url)
    host = parts.netloc.lower() if parts.scheme in ("http", "https") else parts.netloc
    return cache_folder().joinpath(parts.scheme, quote(host, safe=""), *segments)


def _url_of(path: Path) -> str | None:
    """Return the URL that a local path stands for; None if it is an ordinary path."""
    root = cache_folder()
    parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
    if len(parts) < 2 or parts[0] not in SCHEMES:
        return None
    scheme, authority, *segments = parts
    inner = quote("/".join(segments), safe=PLAIN)
    return f"{scheme}://{unquote(authority)}/{inner}".removesuffix("/")


def _secret_error(url: str) -> CheckpointError:
    return CheckpointError(
        "{url!r} carries a password or a signature. Set credentials in the environment "
        "instead, and open the URL without them.",
        url=redacted_url(url),
    )
