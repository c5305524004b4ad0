"""Connections to object stores, with the settings and credentials of their providers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import ObjectStore, from_url

from prune_gui.checkpoint.remote.web import POLL_S, Patience
from prune_gui.errors import CheckpointError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

log = logging.getLogger(__name__)
Found = TypeVar("Found")

FIRST_PAUSE_S: Final = 0.2
"""Pause before the second attempt; it doubles each time."""
CLIENT_OPTIONS: Final[ClientConfig] = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=10),
    "read_timeout": timedelta(seconds=30),
    "timeout": timedelta(minutes=10),
}
RETRIES: Final[RetryConfig] = {
    "backoff": {
        "init_backoff": timedelta(seconds=FIRST_PAUSE_S),
        "max_backoff": timedelta(seconds=5),
    },
    "max_retries": 6,
    "retry_timeout": timedelta(minutes=1),
}
"""How often and when `obstore` repeats a request after a refused connection or a 5xx."""
MAX_ANSWER_BYTES: Final = 8_000_000
MAX_REQUESTS: Final = 8
"""Parts that are uploaded at once."""
STALL_S: Final = 120
"""See `Patience`. It is longer than a request to a web server waits, because `obstore` reports only
large pieces of an answer, and makes requests again itself."""


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


@lru_cache(maxsize=16)
def bucket_store(scheme: str, bucket: str) -> ObjectStore:
    """Return the connections to a bucket, with the credentials of its provider."""
    from botocore.exceptions import BotoCoreError  # slow to import

    url = f"{scheme}://{bucket}"
    try:
        options = _s3_options() if scheme == "s3" else {}
        return from_url(url, **options, client_options=CLIENT_OPTIONS, retry_config=RETRIES)
    except (BaseError, BotoCoreError) as error:  # its text may hold a part of a key
        raise CheckpointError(
            "{url} cannot be reached: the account or the credentials are missing or invalid. "
            "Set them in the environment or in the files of the provider, and try again.",
            url=url,
        ) from error


def _s3_options() -> dict[str, Any]:
    """Return what the files of the AWS command line say and the environment does not."""
    profile, environment = _aws_profile(), os.environ
    config = {}
    if endpoint := s3_endpoint():
        config["aws_endpoint"] = endpoint
    if "region" in profile and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & environment.keys():
        config["aws_region"] = profile["region"]
    if not profile or "AWS_ACCESS_KEY_ID" in environment:
        return {"config": config}
    import boto3  # slow to import
    from obstore.auth.boto3 import Boto3CredentialProvider

    session = boto3.session.Session(region_name=environment.get("AWS_REGION"))
    try:
        provider = Boto3CredentialProvider(session)
    except ValueError:  # the profile has none
        return {"config": config}
    provider()  # which reports what is wrong with them
    return {"config": config, "credential_provider": provider}


def s3_endpoint() -> str | None:
    """Return the URL of the server of S3, from the environment or a file; None for Amazon's."""
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    found = next(filter(None, map(os.environ.get, variables)), None)
    return found or _aws_profile().get("endpoint_url")


def _aws_profile() -> dict[str, Any]:
    """Return the settings of the chosen profile in the files of the AWS command line."""
    from botocore.exceptions import BotoCoreError  # slow to import
    from botocore.session import Session

    try:
        return dict(Session().get_scoped_config())
    except BotoCoreError as error:
        log.warning("The files of AWS cannot be read: %s.", type(error).__name__)
        return {}
