"""Fixtures: a web server, object stores, and a cache folder of its own for each test."""

import hashlib

import pytest
import torch
from file_server import serving
from object_stores import forget_connections, serving_azure, serving_s3, use_azure, use_gcs, use_s3
from safetensors.torch import save_file

from prune_gui.checkpoint.remote import stores


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stores, "FIRST_PAUSE_S", 0.001)
    return tmp_path / "cache" / "prune-gui" / "remote"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    tensors = {
        "first.weight": torch.randn(300, 400),
        "first.bias": torch.randn(300),
        "second.weight": torch.randn(700, 900),
    }
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture
def server(folder):
    with serving(folder) as server:
        yield server


@pytest.fixture
def local(folder):
    return folder / "model.safetensors"


@pytest.fixture(scope="session")
def s3_server():
    with serving_s3() as url:
        yield url


@pytest.fixture(scope="session")
def azure_server():
    with serving_azure() as url:
        yield url


@pytest.fixture
def empty_store(request, monkeypatch, tmp_path):
    """Return an empty `Bucket`; `request.param` is its scheme: "s3", "gs" or "az"."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    bucket = f"models{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:20]}"
    forget_connections()
    match request.param:
        case "s3":
            yield use_s3(request.getfixturevalue("s3_server"), bucket, monkeypatch)
        case "gs":
            server = request.getfixturevalue("s3_server")
            yield use_gcs(server, bucket, monkeypatch, tmp_path / "account.json")
        case "az":
            yield use_azure(request.getfixturevalue("azure_server"), bucket, monkeypatch)
    forget_connections()
