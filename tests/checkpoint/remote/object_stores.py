"""Servers of object stores as processes of their own: S3, and Azurite for Azure Blob Storage.

Google's XML API is like that of S3, whose server stands in for it. It has no accounts of Google, so
its objects can be read by everyone.
"""

import base64
import hashlib
import hmac
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.error import HTTPError, URLError

import boto3
import obstore
import pytest

from prune_gui.checkpoint.remote import buckets

START_S = 60
S3_KEY, S3_SECRET = "an-access-key", "a-secret-key"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The only account of Azurite, and its key, which are public."""
AZURITE = "azurite-blob"


@dataclass(frozen=True)
class Bucket:
    """An empty bucket, which the environment has credentials for.

    `put` takes the name of an object and its content, or a file with it.
    """

    url: str
    put: Callable[[str, bytes | Path], object]


@contextmanager
def serving_s3() -> Iterator[str]:
    port = _free_port()
    with _running([sys.executable, "-m", "moto.server", "-p", str(port)], port) as url:
        yield url


@contextmanager
def serving_azure() -> Iterator[str]:
    """Run Azurite, and yield its URL; skip the test if it is not installed."""
    program = shutil.which(AZURITE)
    if program is None:
        pytest.skip(f"{AZURITE} is not installed (npm install azurite)")
    port = _free_port()
    options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    with _running([program, *options, "--blobPort", str(port)], port) as url:
        yield url


def use_s3(url: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", S3_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", S3_SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    urllib.request.urlopen(urllib.request.Request(f"{url}/{bucket}", method="PUT")).close()
    return Bucket(f"s3://{bucket}", partial(_put, "s3", bucket))


def s3_contents(url: str, bucket: str) -> tuple[dict[str, bytes], list[str]]:
    """Return the content of each object by its key, and the keys of incomplete uploads."""
    found = boto3.resource("s3", endpoint_url=url, region_name="us-east-1").Bucket(bucket)
    pending = [upload.object_key for upload in found.multipart_uploads.all()]
    return {each.key: each.get()["Body"].read() for each in found.objects.all()}, pending


def use_gcs(url: str, bucket: str, monkeypatch: pytest.MonkeyPatch, account_file: Path) -> Bucket:
    """Create a bucket in a server of S3, and set the environment to use it as one of Google."""
    account = {"gcs_base_url": url, "disable_oauth": True}
    account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    account_file.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account_file))
    urllib.request.urlopen(urllib.request.Request(f"{url}/{bucket}", method="PUT")).close()

    def put(name: str, content: bytes | Path) -> None:
        octets = content if isinstance(content, bytes) else content.read_bytes()
        headers = {"x-amz-acl": "public-read", "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{url}/{bucket}/{name}", octets, headers, method="PUT")
        urllib.request.urlopen(request).close()

    return Bucket(f"gs://{bucket}", put)


def use_azure(url: str, container: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", url)
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", AZURE_ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
    path = f"/{AZURE_ACCOUNT}/{container}"
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = f"x-ms-date:{date}\nx-ms-version:2021-12-02\n"
    text = "PUT" + "\n" * 12 + f"{headers}/{AZURE_ACCOUNT}{path}\nrestype:container"
    digest = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)
    signature = base64.b64encode(digest).decode()
    request = urllib.request.Request(f"{url}{path}?restype=container", method="PUT")
    for line in headers.splitlines():
        request.add_header(*line.split(":", 1))
    request.add_header("Authorization", f"SharedKey {AZURE_ACCOUNT}:{signature}")
    urllib.request.urlopen(request).close()
    return Bucket(f"az://{container}", partial(_put, "az", container))


def _put(scheme: str, bucket: str, name: str, content: bytes | Path) -> None:
    obstore.put(buckets.bucket_store(scheme, bucket), name, content)


def forget_connections() -> None:
    """Let the next request use the environment as it is then."""
    buckets.bucket_store.cache_clear()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while not _answers(url):
            assert process.poll() is None, f"{command[0]} has ended"
            assert time.monotonic() < end, f"{command[0]} does not answer"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()
    except HTTPError as error:
        error.close()
    except (URLError, OSError):
        return False
    return True
