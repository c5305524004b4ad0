"""Requests to object stores and web servers that read."""

from __future__ import annotations

import configparser
import importlib.util
import json
import logging
import os
import re
import time
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore import Bytes, GetOptions
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

log = logging.getLogger(__name__)

TRIES: Final = 5
"""Attempts for a range whose answer was cut off or wrong."""
FIRST_PAUSE_S: Final = 0.2
"""Pause before the second attempt; it doubles each time."""
STATUS: Final = re.compile(r"\b[45]\d\d\b [A-Z][A-Za-z ]+")
"""The status in an error message of `obstore`. The rest may hold signed URLs, and is not shown."""
DENIED: Final = ("401 ", "403 ")
"""How that status starts if permission is missing, which `obstore` does not say of a listing."""
UNTRUSTED: Final = "InvalidCertificate"
"""What is in an error message of `obstore` if the certificate of the server is not trusted."""
MAX_LISTING_BYTES: Final = 8_000_000


def client_options() -> ClientConfig:
    """Return the options of all connections."""
    return {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=10),
        "read_timeout": timedelta(seconds=30),
        "timeout": timedelta(minutes=10),
    }


def retry_config() -> RetryConfig:
    """Return how often and when a request is made again after a refused connection or a 5xx."""
    return {
        "backoff": {
            "init_backoff": timedelta(seconds=FIRST_PAUSE_S),
            "max_backoff": timedelta(seconds=5),
        },
        "max_retries": 6,
        "retry_timeout": timedelta(minutes=1),
    }


class FileState(NamedTuple):
    """The state of a remote file, which detects changes.

    Attributes:
        size: the size in bytes.
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


def file_state(url: str) -> FileState:
    """Return the state of a remote file.

    Raises:
        CheckpointError: the file does not exist or cannot be reached.
    """
    import obstore  # optional

    store, path = located(url)
    try:
        return FileState.of(obstore.head(store, path))
    except Exception as error:
        raise _explained(url, error) from error


def read_range(url: str, start: int, stop: int, state: FileState) -> Bytes:
    """Return the bytes from `start` to `stop` of a remote file.

    Raises:
        CheckpointError: the file was changed, or cannot be read.
        Cancelled: the user cancels.
    """
    import obstore  # optional

    store, path = located(url)
    problem: Exception | None = None
    for pause in _pauses():
        try:
            answer = obstore.get(store, path, options=state.options(start, stop))
            octets = answer.bytes()
        except obstore.exceptions.PreconditionError as error:
            raise ChangedError(url) from error
        except obstore.exceptions.GenericError as error:
            problem = error
        except Exception as error:
            raise _explained(url, error) from error
        else:
            if FileState.of(answer.meta) != state:
                raise ChangedError(url)
            if answer.range == (start, stop) and len(octets) == stop - start:
                return octets
        log.info("Bytes %d to %d of %s are read again.", start, stop, url)
        _sleep(pause)
    raise _explained(url, problem) from problem


def read_small(url: str, limit: int) -> bytes | None:
    """Return the contents of a remote file, None if it does not exist.

    Raises:
        CheckpointError: the file is larger than `limit` bytes, or cannot be read.
    """
    import obstore  # optional

    store, path = located(url)
    problem: Exception | None = None
    for pause in _pauses():
        try:
            answer = obstore.get(store, path)
            size = answer.meta["size"]
            octets = b"" if size > limit else bytes(answer.bytes())
        except FileNotFoundError:
            return None
        except obstore.exceptions.GenericError as error:
            problem = error
        except Exception as error:
            raise _explained(url, error) from error
        else:
            if len(octets) == size:
                return octets
            if size > limit:
                raise CheckpointError(
                    tr("{file} is larger than {limit:,} bytes.", file=_shown(url), limit=limit)
                )
        _sleep(pause)
    raise _explained(url, problem) from problem


def listing(url: str) -> Listing | None:
    """Return the content of a remote folder; None if the server cannot list it.

    Raises:
        CheckpointError: the folder cannot be reached.
    """
    import obstore  # optional

    match urlsplit(url).scheme:
        case "http" | "https":
            return None
        case "hf":
            return _hub_content(read_small(_hub_listing(url), MAX_LISTING_BYTES) or b"[]")
    store, path = located(url)
    try:
        listed = obstore.list_with_delimiter(store, f"{path}/" if path else None)
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


def _hub_content(answer: bytes) -> Listing:
    try:
        entries = [
            (each["type"], _last(each["path"]), int(each.get("size", 0)))
            for each in json.loads(answer)
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        entries = []
    files = {name: size for kind, name, size in entries if kind == "file"}
    return Listing(files, [name for kind, name, _ in entries if kind == "directory"])


def _last(path: str) -> str:
    """Return the name of a file or folder from its path."""
    return path.rstrip("/").rpartition("/")[2]


def _pauses() -> Iterator[float]:
    return (FIRST_PAUSE_S * 2**attempt for attempt in range(TRIES))


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
        case FileNotFoundError() | exceptions.NotFoundError():
            return CheckpointError(tr("{url} does not exist. Check the URL.", url=name))
        case exceptions.NotSupportedError():
            return CheckpointError(
                tr(
                    "{url} cannot be read in parts: the server ignores ranges. Download the file.",
                    url=name,
                )
            )
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
            tr(
                "{url} cannot be reached: its certificate is not trusted. If you trust it, name a "
                "file with it in the environment variable {variable}, and open it again.",
                url=name,
                variable="SSL_CERT_FILE",
            )
        )
    return CheckpointError(
        tr(
            "{url} cannot be reached: {reason}. Check the URL and the network, and open it again.",
            url=name,
            reason=status[0].strip() if status else tr("no complete answer"),
        )
    )


def _shown(url: str) -> str:
    """Return a URL for messages, without the query of a listing."""
    return unquote(url.partition("?")[0])


def located(url: str) -> tuple[ObjectStore, str]:
    """Return the store of a URL, and the path in it."""
    parts = urlsplit(url)
    path = unquote(parts.path).strip("/")
    if parts.scheme == "hf":
        name, _, inner = path.partition("/")
        name, _, revision = name.partition("@")
        path = f"{parts.netloc}/{name}/resolve/{revision or 'main'}/{inner}".rstrip("/")
        return web_store(_hub(), _hub_token()), path
    if parts.scheme in ("http", "https"):
        origin = f"{parts.scheme}://{parts.netloc}"
        return web_store(origin, _hub_token() if origin == _hub() else ""), path
    return bucket_store(parts.scheme, parts.netloc), path


def check_installed() -> None:
    """Check that the package for remote files is installed.

    Raises:
        CheckpointError: it is not.
    """
    if importlib.util.find_spec("obstore") is None:
        raise CheckpointError(
            tr(
                "URLs need the package {package}. Install prune-gui[{extra}] to use them.",
                package="obstore",
                extra="remote",
            )
        )


@lru_cache(maxsize=16)
def web_store(origin: str, token: str) -> ObjectStore:
    """Return the connections to a web server; `token` is sent with each request if not empty.

    Raises:
        CheckpointError: the package for it is not installed.
    """
    check_installed()
    from obstore.store import HTTPStore  # optional

    options = client_options()
    if token:
        options["default_headers"] = {"Authorization": f"Bearer {token}"}
    return HTTPStore(origin, client_options=options, retry_config=retry_config())


@lru_cache(maxsize=16)
def bucket_store(scheme: str, bucket: str) -> ObjectStore:
    """Return the connections to a bucket, with the credentials of its provider.

    Raises:
        CheckpointError: the package for it is not installed, or its settings are not complete.
    """
    check_installed()
    from obstore.exceptions import BaseError  # optional
    from obstore.store import from_url

    url = f"{scheme}://{bucket}"
    config: Any = _aws_config() if scheme == "s3" else {}
    try:
        return from_url(
            url, config=config, client_options=client_options(), retry_config=retry_config()
        )
    except BaseError as error:  # its text may hold a part of a key
        raise CheckpointError(
            tr(
                "{url} cannot be reached: the account or the credentials are missing or invalid. "
                "Set them in the environment or in the files of the provider, and try again.",
                url=url,
            )
        ) from error


def s3_endpoint() -> str | None:
    """Return the URL of the server of S3, from the environment or a file; None for Amazon's."""
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    found = next(filter(None, map(os.environ.get, variables)), None)
    return found or _aws_profile().get("endpoint_url")


def _aws_config() -> dict[str, str]:
    """Return what the files of the AWS command line say and the environment does not."""
    environment = os.environ
    profile = _aws_profile()
    config: dict[str, str] = {}
    if "AWS_ACCESS_KEY_ID" not in environment:
        keys = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        config = {key: profile[key] for key in keys if key in profile}
    if "region" in profile and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & environment.keys():
        config["aws_region"] = profile["region"]
    if endpoint := s3_endpoint():
        config["aws_endpoint"] = endpoint
    return config


def _aws_profile() -> dict[str, str]:
    """Return the settings of the chosen profile in the files of the AWS command line."""
    environment = os.environ
    profile = environment.get("AWS_PROFILE", "default")
    home = Path.home() / ".aws"
    found: dict[str, str] = {}
    for variable, name, section in (
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile),
        ("AWS_CONFIG_FILE", "config", profile if profile == "default" else f"profile {profile}"),
    ):
        file = configparser.ConfigParser(interpolation=None)
        try:
            file.read(environment.get(variable) or home / name, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            log.warning("The %s file of AWS cannot be read.", name)
        found |= dict(file[section]) if file.has_section(section) else {}
    return found


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
