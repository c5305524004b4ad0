"""Fixtures: a web server, and a cache folder of its own for each test."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress

import pytest
import torch
from file_server import serving
from safetensors.torch import save_file

START_S = 60


@pytest.fixture(scope="session")
def s3_server():
    """Return the URL of a server of S3."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    while time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(url):
            break
        time.sleep(0.1)
    yield url
    process.terminate()
    process.wait()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Return the folder of the cache, which is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prune-gui" / "remote"


@pytest.fixture
def folder(tmp_path):
    """Return the folder that the server serves, with a file of several blocks."""
    folder = tmp_path / "served"
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "first.weight": torch.randn(300, 400, generator=generator),
        "first.bias": torch.randn(300, generator=generator),
        "second.weight": torch.randn(700, 900, generator=generator),
    }
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture
def server(folder):
    """Return a server of `folder`."""
    with serving(folder) as server:
        yield server


@pytest.fixture
def local(folder):
    """Return the path of the served file."""
    return folder / "model.safetensors"
