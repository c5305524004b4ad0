"""Uploading files to object stores. A file appears there when all of its parts have arrived.

Only uploads to S3 in parts need `boto3`: it can complete an upload on the condition that no object
has appeared, and remove the parts of killed uploads. `obstore` uploads without parts as soon as
there is a condition, and cannot list parts.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from http.client import responses
from os.path import commonprefix
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from prune_gui.checkpoint.remote.buckets import MAX_REQUESTS, awaited, located, s3_endpoint
from prune_gui.checkpoint.remote.stores import DENIED, STATUS, file_state, is_denied, read_range
from prune_gui.checkpoint.remote.web import WebError
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor, not_cancelled

log = logging.getLogger(__name__)

PART_BYTES: Final = 8 << 20
MAX_PARTS: Final = 10_000
"""The limit of S3 and of Google Cloud Storage."""
MAX_CLOCK_SKEW: Final = timedelta(minutes=15)
"""The difference of clocks that S3 tolerates."""
ID_ATTRIBUTE: Final = "pruneguiupload"
"""The metadata of an uploaded object that holds the id of its upload."""


def upload_id(url: str) -> str | None:
    """Return the id of the upload that wrote an object, "" for another object, None for none."""
    store, key = located(url)
    with _explained(url):
        try:
            found = awaited(lambda _: obstore.get_async(store, key, options={"head": True}))
        except FileNotFoundError:
            return None
        return str(found.attributes.get(ID_ATTRIBUTE, ""))


def unfinished_url(url: str, own_id: str) -> str | None:
    """Return the URL of an object until it is complete, None if only its parts exist until then."""
    return None if urlsplit(url).scheme == "s3" else f"{url}.{own_id}.part"


def upload_file(path: Path, url: str, own_id: str, monitor: Monitor, *, overwrite: bool) -> None:
    """Upload a file in parts, and compare it with what arrived.

    The object is created or replaced in one step, when all parts are there. After an error, the
    parts are removed.
    """
    if not overwrite:
        check_absent(url, own_id)
    file = _PartedFile(path, monitor)
    unfinished = unfinished_url(url, own_id)
    try:
        with _explained(url):
            if file.n_parts == 1:
                tag = _put_whole(url, own_id, file, overwrite=overwrite)
            elif unfinished is None:
                tag = _put_parts(url, own_id, file, overwrite=overwrite)
            else:
                tag = _put_and_copy(url, unfinished, own_id, file, overwrite=overwrite)
    except AlreadyExistsError:
        check_absent(url, own_id)
        tag = ""  # it was uploaded by a lost worker, or an answer was lost
    if tag.strip('"') != file.s3_tag():
        _read_back(url, file)


class _PartedFile:
    """A file that is read in parts, each of them once. Only the last part may be smaller."""

    def __init__(self, path: Path, monitor: Monitor) -> None:
        self._path, self._monitor = path, monitor
        self.nbytes = path.stat().st_size
        self.part_nbytes = max(PART_BYTES, -(-self.nbytes // MAX_PARTS))
        self.n_parts = max(1, -(-self.nbytes // self.part_nbytes))
        self.digests: dict[int, bytes] = {}

    def read(self, part: int) -> bytes:
        """Return the bytes of a part, and count them."""
        self._monitor.advance()
        with self._path.open("rb") as file:
            file.seek(part * self.part_nbytes)
            octets = file.read(self.part_nbytes)
        self.digests[part] = _md5(octets)
        self._monitor.advance(len(octets))
        return octets

    def s3_tag(self) -> str:
        """Return the ETag that S3 gives to an object with these parts."""
        digests = [self.digests[part] for part in range(self.n_parts)]
        if self.n_parts == 1:
            return digests[0].hex()
        return f"{_md5(b''.join(digests)).hex()}-{self.n_parts}"


def _put_whole(url: str, own_id: str, file: _PartedFile, *, overwrite: bool) -> str:
    result = obstore.put(
        *located(url),
        file.read(0),
        attributes={ID_ATTRIBUTE: own_id},
        mode="overwrite" if overwrite else "create",
        use_multipart=False,
    )
    return result["e_tag"] or ""


def _put_parts(url: str, own_id: str, file: _PartedFile, *, overwrite: bool) -> str:
    """Upload a file to S3 in parts, and return the ETag. After an error, the parts are removed."""
    client, where = _s3_client(), {"Bucket": urlsplit(url).netloc, "Key": located(url)[1]}
    metadata = {ID_ATTRIBUTE: own_id}
    where["UploadId"] = client.create_multipart_upload(**where, Metadata=metadata)["UploadId"]

    def send(part: int) -> dict[str, Any]:
        answer = client.upload_part(**where, PartNumber=part + 1, Body=file.read(part))
        return {"PartNumber": part + 1, "ETag": answer["ETag"]}

    try:
        with ThreadPoolExecutor(MAX_REQUESTS, "prune-gui-upload") as pool:
            parts = [*pool.map(send, range(file.n_parts))]
        condition = {} if overwrite else {"IfNoneMatch": "*"}
        answer = client.complete_multipart_upload(
            **where, **condition, MultipartUpload={"Parts": parts}
        )
    except BaseException:
        with suppress(CheckpointError), _explained(url):
            client.abort_multipart_upload(**where)
        raise
    return str(answer["ETag"])


def _s3_client() -> Any:  # noqa: ANN401 - its classes are made at run time
    import boto3  # slow to import
    from botocore.config import Config

    endpoint = s3_endpoint()
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=os.environ.get("AWS_REGION"),  # which boto3 does not read
        config=Config(
            connect_timeout=10,
            max_pool_connections=MAX_REQUESTS,
            retries={"mode": "standard", "total_max_attempts": 7},
            request_checksum_calculation="when_required",  # other stores know no checksums
            response_checksum_validation="when_required",
            s3={"addressing_style": "path"} if endpoint else None,
        ),
    )


def _put_and_copy(
    url: str, unfinished: str, own_id: str, file: _PartedFile, *, overwrite: bool
) -> str:
    """Upload a file in parts under another name, and return "", which is no ETag.

    `obstore` completes such an upload without conditions, but can copy its object within the store
    on the condition that no other object is there.
    """
    store, key = located(url)
    _, other_key = located(unfinished)
    try:
        obstore.put(
            store,
            other_key,
            map(file.read, range(file.n_parts)),
            attributes={ID_ATTRIBUTE: own_id},
            use_multipart=True,
            chunk_size=file.part_nbytes,
            max_concurrency=MAX_REQUESTS,
        )
        obstore.copy(store, other_key, key, overwrite=overwrite)
    finally:
        try:
            with not_cancelled():
                remove_object(unfinished)
        except CheckpointError as error:
            log.warning("%s could not be removed: %s", unfinished, error)
    return ""


def check_absent(url: str, own_id: str) -> None:
    """Check that no object, or one of this upload, is at a URL."""
    if upload_id(url) not in (None, own_id):
        raise CheckpointError(
            "{path} already exists. Choose another name, or allow overwriting it.", path=url
        )


def remove_object(url: str) -> None:
    """Remove an object, if there is one."""
    store, key = located(url)
    with _explained(url):
        try:
            awaited(lambda _: obstore.delete_async(store, key))
        except FileNotFoundError:
            return


def remove_parts(urls: Sequence[str], since: datetime) -> None:
    """Remove the parts of uploads to these URLs that nobody will complete.

    S3 keeps such parts, which cost money, until they are removed. Azure removes them after a week.
    Google Cloud Storage does it if the bucket has a rule for that.
    """
    wanted = [urlsplit(url) for url in urls]
    for bucket in {each.netloc for each in wanted if each.scheme == "s3"}:
        keys = [located(each.geturl())[1] for each in wanted if each.netloc == bucket]
        with _explained(f"s3://{bucket}"):
            client = _s3_client()
            pages = client.get_paginator("list_multipart_uploads").paginate(
                Bucket=bucket,
                Prefix=commonprefix(keys),  # noqa: RUF071 - S3 has no path components
            )
            for upload in (each for page in pages for each in page.get("Uploads", ())):
                key, began = upload["Key"], upload["Initiated"]
                if key in keys and began >= since - MAX_CLOCK_SKEW:
                    client.abort_multipart_upload(
                        Bucket=bucket, Key=key, UploadId=upload["UploadId"]
                    )


@not_cancelled()
def _read_back(url: str, file: _PartedFile) -> None:
    """Compare an object with the parts of its file; the object may have replaced another one."""
    state = file_state(url)

    def is_equal(part: int) -> bool:
        start = part * file.part_nbytes
        stop = min(start + file.part_nbytes, file.nbytes)
        return _md5(memoryview(read_range(url, start, stop, state))) == file.digests[part]

    with ThreadPoolExecutor(MAX_REQUESTS, "prune-gui-verify") as pool:
        if state.size == file.nbytes and all(pool.map(is_equal, file.digests)):
            return
    remove_object(url)
    raise CheckpointError(
        "{url} was not written: what the server stored differs from the file. Try again.", url=url
    )


def _md5(octets: bytes | memoryview) -> bytes:
    """Return the digest from which S3 makes its ETags; it is no protection against attacks."""
    return hashlib.md5(octets, usedforsecurity=False).digest()


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Convert the errors of requests, except for those that an object exists, to one message."""
    from botocore import exceptions as of_boto  # slow to import

    try:
        yield
    except AlreadyExistsError:
        raise
    except of_boto.ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status == HTTPStatus.PRECONDITION_FAILED:
            raise AlreadyExistsError(url) from error
        # Servers have statuses of their own.
        raise _unwritable(url, error, f"{status} {responses.get(status, 'Error')}") from error
    except (of_boto.NoCredentialsError, of_boto.PartialCredentialsError) as error:
        raise _unwritable(url, error, "401 Unauthorized") from error
    except of_boto.BotoCoreError as error:
        raise _unwritable(url, error, "") from error
    except (BaseError, FileNotFoundError, PermissionError, WebError) as error:
        found = STATUS.search(str(error))
        raise _unwritable(url, error, found[0].strip() if found else "") from error


def _unwritable(url: str, error: Exception, status: str) -> CheckpointError:
    if is_denied(error) or status.startswith(DENIED):
        return CheckpointError(
            "{url} cannot be written without permission. Set credentials in the environment "
            "or in the files of the provider, and save again.",
            url=url,
        )
    return CheckpointError(
        "{url} cannot be written: {reason}. Check the URL and the network, and save again.",
        url=url,
        reason=status or tr("no complete answer"),
    )
