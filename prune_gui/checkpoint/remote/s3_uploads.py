"""Uploads to S3 in parts. The only importer of `boto3`.

`boto3` can complete an upload on the condition that no object has appeared, and remove the parts
of killed uploads, which `obstore` cannot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from http.client import responses
from os.path import commonprefix
from typing import Any, Final

from prune_gui.checkpoint.remote.buckets import s3_endpoint

MAX_REQUESTS: Final = 8
"""Parts that are uploaded at once."""


class S3Error(Exception):
    """A request failed. The text is the status, such as "404 Not Found", empty without answer."""


class ObjectExistsError(S3Error):
    """An object has appeared, and is not replaced."""


def upload_parts(
    bucket: str,
    key: str,
    read_part: Callable[[int], bytes],
    n_parts: int,
    metadata: Mapping[str, str],
    *,
    overwrite: bool,
) -> str:
    """Upload an object in parts, and return its ETag. After an error, the parts are removed.

    Args:
        read_part: returns the bytes of a part, which are counted from 0; called on several threads.
    """
    where = {"Bucket": bucket, "Key": key}
    with _converted_errors():
        client = _client()
        where["UploadId"] = client.create_multipart_upload(**where, Metadata=metadata)["UploadId"]

        def send(part: int) -> dict[str, Any]:
            answer = client.upload_part(**where, PartNumber=part + 1, Body=read_part(part))
            return {"PartNumber": part + 1, "ETag": answer["ETag"]}

        try:
            with ThreadPoolExecutor(MAX_REQUESTS, "prune-gui-upload") as pool:
                parts = [*pool.map(send, range(n_parts))]
            condition = {} if overwrite else {"IfNoneMatch": "*"}
            answer = client.complete_multipart_upload(
                **where, **condition, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            with suppress(S3Error), _converted_errors():
                client.abort_multipart_upload(**where)
            raise
        return str(answer["ETag"])


def remove_parts(bucket: str, keys: Sequence[str], since: datetime) -> int:
    """Remove the parts of abandoned uploads, and return how many uploads it were."""
    count = 0
    with _converted_errors():
        client = _client()
        pages = client.get_paginator("list_multipart_uploads").paginate(
            Bucket=bucket,
            Prefix=commonprefix(keys),  # noqa: RUF071 - S3 has no path components
        )
        for upload in (each for page in pages for each in page.get("Uploads", ())):
            if upload["Key"] in keys and upload["Initiated"] >= since:
                client.abort_multipart_upload(
                    Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )
                count += 1
    return count


def _client() -> Any:  # noqa: ANN401 - its classes are made at run time
    """Return a connection to the server from which `obstore` reads."""
    import boto3  # optional
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


@contextmanager
def _converted_errors() -> Iterator[None]:
    from botocore.exceptions import (  # optional
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        PartialCredentialsError,
    )

    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_condition = status == HTTPStatus.PRECONDITION_FAILED
        phrase = responses.get(status, "Error")  # servers have statuses of their own
        raise (ObjectExistsError if is_condition else S3Error)(f"{status} {phrase}") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise S3Error("401 Unauthorized") from error
    except BotoCoreError as error:
        raise S3Error from error
