"""Uploading files to object stores. A file appears there when all of its parts have arrived."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from os.path import commonprefix
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from prune_gui.checkpoint.remote.locations import url_of
from prune_gui.checkpoint.remote.stores import (
    STATUS,
    check_installed,
    file_state,
    is_denied,
    located,
    read_range,
)
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

log = logging.getLogger(__name__)

SCHEMES: Final = ("s3", "gs", "az")
"""The schemes of URLs that can be written."""
PART_BYTES: Final = 8 << 20
MAX_PARTS: Final = 10_000
"""The limit of S3 and of Google Cloud Storage."""
MAX_REQUESTS: Final = 8
"""Parts that are uploaded at once."""
MAX_CLOCK_SKEW: Final = timedelta(minutes=15)
"""The difference of clocks that S3 tolerates."""
ID_ATTRIBUTE: Final = "pruneguiupload"
"""The metadata of an uploaded object that holds the id of its upload."""


def check_writable(url: str) -> None:
    """Check that files can be written to servers of the kind of a URL, without a connection.

    Raises:
        CheckpointError: they cannot, or a package for it is not installed.
    """
    if urlsplit(url).scheme not in SCHEMES:
        raise CheckpointError(
            tr(
                "{url} cannot be written. Save into an object store (s3, gs or az), or into a "
                "local folder.",
                url=url,
            )
        )
    check_installed()


def upload_id(url: str) -> str | None:
    """Return the id of the upload that wrote an object, "" for another object, None for none.

    Raises:
        CheckpointError: the object store cannot be reached.
    """
    import obstore  # optional

    store, key = located(url)
    with _explained(url):
        try:
            found = obstore.get(store, key, options={"head": True})
        except FileNotFoundError:
            return None
        return str(found.attributes.get(ID_ATTRIBUTE, ""))


def exists(path: Path) -> bool:
    """Return whether there is a file at a path, or at the URL that it stands for.

    Raises:
        CheckpointError: the object store cannot be reached.
    """
    url = url_of(path)
    return os.path.lexists(path) if url is None else upload_id(url) is not None


def upload_file(path: Path, url: str, own_id: str, monitor: Monitor, *, overwrite: bool) -> None:
    """Upload a file in parts, and compare it with what arrived.

    The object is created or replaced in one step, when all parts are there. After an error, the
    parts are removed.

    Args:
        path: the file.
        url: of the object.
        own_id: the id of this upload, which the object gets.
        monitor: counts the bytes that are uploaded.
        overwrite: whether an object of another upload may be replaced.

    Raises:
        CheckpointError: the object exists, cannot be written, or differs from the file.
        Cancelled: the user cancels.
    """
    import obstore  # optional

    store, key = located(url)
    size = path.stat().st_size
    part_nbytes = max(PART_BYTES, -(-size // MAX_PARTS))
    is_multipart = size > part_nbytes
    digests: list[bytes] = []

    def parts() -> Iterator[bytes]:
        with path.open("rb") as file:
            while octets := file.read(part_nbytes):
                monitor.advance()
                digests.append(_md5(octets))
                yield octets
                monitor.advance(len(octets))
        if not overwrite:  # the last moment before the object appears
            checking.submit(check_absent, url, own_id).result()

    # obstore refuses requests on the thread that runs one.
    with _explained(url), ThreadPoolExecutor(1, "prune-gui-upload") as checking:
        result = obstore.put(
            store,
            key,
            parts() if is_multipart else b"".join(parts()),
            attributes={ID_ATTRIBUTE: own_id},
            use_multipart=is_multipart,
            chunk_size=part_nbytes,
            max_concurrency=MAX_REQUESTS,
        )
    whole = _md5(b"".join(digests))
    expected = f"{whole.hex()}-{len(digests)}" if is_multipart else b"".join(digests).hex()
    if (result["e_tag"] or "").strip('"') != expected:
        _read_back(url, part_nbytes, size, digests)


def check_absent(url: str, own_id: str) -> None:
    """Check that no object, or one of this upload, is at a URL.

    Raises:
        CheckpointError: another object is there, or the object store cannot be reached.
    """
    if upload_id(url) not in (None, own_id):
        raise CheckpointError(
            tr("{path} already exists. Choose another name, or allow overwriting it.", path=url)
        )


def remove_object(url: str) -> None:
    """Remove an object, if there is one.

    Raises:
        CheckpointError: it cannot be removed.
    """
    import obstore  # optional

    store, key = located(url)
    with _explained(url):
        try:
            obstore.delete(store, key)
        except FileNotFoundError:
            return


def remove_parts(urls: Sequence[str], since: datetime) -> int:
    """Remove the parts of uploads to these URLs that nobody will complete.

    S3 keeps such parts, which cost money, until they are removed. Azure removes them after a week.
    Google Cloud Storage does it if the bucket has a rule for that.

    Args:
        urls: the URLs of objects.
        since: when the first of them began. Earlier ones are not touched.

    Returns:
        The number of uploads whose parts were removed.

    Raises:
        CheckpointError: the object store cannot be reached.
    """
    wanted = [urlsplit(url) for url in urls]
    count = 0
    for bucket in {each.netloc for each in wanted if each.scheme == "s3"}:
        keys = {located(each.geturl())[1] for each in wanted if each.netloc == bucket}
        count += _remove_s3_parts(bucket, keys, since - MAX_CLOCK_SKEW)
    return count


def _remove_s3_parts(bucket: str, keys: set[str], since: datetime) -> int:
    import boto3  # optional
    from botocore.exceptions import BotoCoreError, ClientError

    count = 0
    try:
        client = boto3.client("s3")
        pages = client.get_paginator("list_multipart_uploads").paginate(
            Bucket=bucket,
            Prefix=commonprefix([*keys]),  # noqa: RUF071 - S3 has no path components
        )
        for upload in (each for page in pages for each in page.get("Uploads", ())):
            if upload["Key"] in keys and upload["Initiated"] >= since:
                client.abort_multipart_upload(
                    Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )
                count += 1
    except (BotoCoreError, ClientError) as error:
        raise _unwritable(f"s3://{bucket}", error) from error
    return count


def _read_back(url: str, part_nbytes: int, size: int, digests: Sequence[bytes]) -> None:
    """Compare an object with the digests of the parts of its file.

    This cannot be cancelled: the object may have replaced another one.

    Raises:
        CheckpointError: it differs; it is removed.
    """
    state = file_state(url)

    def is_equal(part: int) -> bool:
        start = part * part_nbytes
        stop = min(start + part_nbytes, size)
        return _md5(memoryview(read_range(url, start, stop, state))) == digests[part]

    with ThreadPoolExecutor(MAX_REQUESTS, "prune-gui-verify") as pool:
        if state.size == size and all(pool.map(is_equal, range(len(digests)))):
            return
    remove_object(url)
    raise CheckpointError(
        tr(
            "{url} was not written: what the server stored differs from the file. Try again.",
            url=url,
        )
    )


def _md5(octets: bytes | memoryview) -> bytes:
    """Return the digest from which S3 makes its ETags; it is no protection against attacks."""
    return hashlib.md5(octets, usedforsecurity=False).digest()


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Convert the errors of requests that write to a CheckpointError."""
    from obstore.exceptions import BaseError  # optional

    try:
        yield
    except (BaseError, FileNotFoundError, PermissionError) as error:
        raise _unwritable(url, error) from error


def _unwritable(url: str, error: Exception) -> CheckpointError:
    status = STATUS.search(str(error))
    if is_denied(error):
        return CheckpointError(
            tr(
                "{url} cannot be written without permission. Set credentials in the environment "
                "or in the files of the provider, and save again.",
                url=url,
            )
        )
    return CheckpointError(
        tr(
            "{url} cannot be written: {reason}. Check the URL and the network, and save again.",
            url=url,
            reason=status[0].strip() if status else tr("no complete answer"),
        )
    )
