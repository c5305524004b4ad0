"""Object stores and the Hugging Face Hub: a server of S3 as a process, a web server for the Hub."""

from __future__ import annotations

import json
import urllib.request

import obstore
import pytest
import torch

import prune_gui
from prune_gui.checkpoint.remote import stores
from prune_gui.errors import CheckpointError

KEY = "an-access-key"
SECRET = "a-secret-key"


@pytest.fixture
def bucket(s3_server, folder, monkeypatch, tmp_path):
    """Return a bucket with the served file, and credentials in the environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    stores.bucket_store.cache_clear()
    urllib.request.urlopen(urllib.request.Request(f"{s3_server}/models", method="PUT")).close()
    store = stores.bucket_store("s3", "models")
    obstore.put(store, "net/model.safetensors", folder / "model.safetensors")
    obstore.put(store, "net/config.json", json.dumps({"model_type": "llama"}).encode())
    yield "s3://models"
    stores.bucket_store.cache_clear()


def same(url, local):
    with prune_gui.open_checkpoint(url) as opened, prune_gui.open_checkpoint(local) as expected:
        return all(torch.equal(opened.read(name), expected.read(name)) for name in expected.tensors)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["net/model.safetensors", "net", "net/"])
def test_a_file_or_folder_of_a_bucket_is_opened(bucket, local, ending):
    assert same(f"{bucket}/{ending}", local)


@pytest.mark.slow
def test_credentials_come_from_the_files_of_the_provider(bucket, local, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    folder = tmp_path / "home" / ".aws"
    folder.mkdir(parents=True)
    (folder / "credentials").write_text(
        f"[mine]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    (folder / "config").write_text("[profile mine]\nregion = eu-central-1\n")
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert stores._aws_config() == {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "eu-central-1",
    }
    assert same(f"{bucket}/net/model.safetensors", local)


@pytest.mark.slow
def test_no_secret_is_kept_or_shown(bucket, cache, caplog):
    caplog.set_level("DEBUG")
    with prune_gui.open_checkpoint(f"{bucket}/net") as opened:
        opened.read("first.weight")
    with pytest.raises(CheckpointError, match="does not exist") as caught:
        prune_gui.open_checkpoint(f"{bucket}/net/other.safetensors")
    kept = b"".join(path.read_bytes() for path in cache.rglob("*") if path.is_file())
    shown = (caplog.text + str(caught.value)).encode()
    for secret in (KEY.encode(), SECRET.encode()):
        assert secret not in kept + shown


def test_a_model_of_the_hub_is_opened_by_its_name(server, folder, local, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "a-token")
    files = folder / "owner" / "net" / "resolve" / "v1"
    files.mkdir(parents=True)
    local.rename(files / "model.safetensors")
    listing = folder / "api" / "models" / "owner" / "net" / "tree"
    listing.mkdir(parents=True)
    names = ("model.safetensors", "config.json", "README.md", "..", "a\\b.safetensors")
    (listing / "v1").write_text(json.dumps([{"type": "file", "path": name} for name in names]))
    assert same("hf://owner/net@v1", files / "model.safetensors")
    assert same("hf://owner/net@v1/model.safetensors", files / "model.safetensors")
    assert all(seen["authorization"] == "Bearer a-token" for seen in server.headers_seen)


def test_without_the_package_one_line_says_what_to_install(server, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    stores.web_store.cache_clear()
    with pytest.raises(CheckpointError, match=r"Install prune-gui\[remote\] to open it"):
        prune_gui.open_checkpoint(f"{server.url}/model.safetensors")
