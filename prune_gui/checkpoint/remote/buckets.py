"""Connections to object stores, with the settings and credentials of their providers."""

from __future__ import annotations

import asyncio
import configparser
import importlib.util
import logging
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from prune_gui.checkpoint.remote.web import POLL_S, Patience
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

log = logging.getLogger(__name__)
Found = TypeVar("Found")

FIRST_PAUSE_S: Final = 0.2
"""Pause before the second attempt; it doubles each time."""
MAX_ANSWER_BYTES: Final = 8_000_000
STALL_S: Final = 120
"""See `Patience`. It is longer than a request to a web server waits, because `obstore` reports only
large pieces of an answer, and makes requests again itself."""


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


def located(url: str) -> tuple[ObjectStore, str]:
    """Return the object store of a URL, and the path in it."""
    parts = urlsplit(url)
    return bucket_store(parts.scheme, parts.netloc), unquote(parts.path).strip("/")


def awaited(work: Callable[[Patience], Awaitable[Found]], limit: int = MAX_ANSWER_BYTES) -> Found:
    """Return the result of work of `obstore`, abandoned when it is too slow or cancelled."""
    patience = Patience(limit, STALL_S)

    async def watch() -> Found:
        task = asyncio.ensure_future(work(patience))
        try:
            while not task.done():
                await asyncio.wait([task], timeout=POLL_S)
                patience.check()
            return task.result()
        finally:
            task.cancel()

    return asyncio.run(watch())


def check_installed() -> None:
    """Check that the package for remote files is installed."""
    if importlib.util.find_spec("obstore") is None:
        raise CheckpointError(
            tr(
                "URLs need the package {package}. Install prune-gui[{extra}] to use them.",
                package="obstore",
                extra="remote",
            )
        )


@lru_cache(maxsize=16)
def bucket_store(scheme: str, bucket: str) -> ObjectStore:
    """Return the connections to a bucket, with the credentials of its provider."""
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
