"""Object stores and the Hugging Face Hub: servers as processes, a web server for the Hub."""

import json
import os

import pytest
import torch
from object_stores import AZURE_KEY, S3_KEY, S3_SECRET, forget_connections
from safetensors.torch import load_file, save_file

import prune_gui
from prune_gui.checkpoint.remote import buckets, stores, uploads
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor

EVERY_STORE = pytest.mark.parametrize("empty_store", ["s3", "gs", "az"], indirect=True)
S3 = pytest.mark.parametrize("empty_store", ["s3"], indirect=True)


@pytest.fixture
def filled(empty_store, folder):
    empty_store.put("net/model.safetensors", folder / "model.safetensors")
    empty_store.put("net/config.json", json.dumps({"model_type": "llama"}).encode())
    tensors = load_file(folder / "model.safetensors")
    shards = {key: f"model-{i}.safetensors" for i, key in enumerate(tensors)}
    for key, name in shards.items():
        save_file({key: tensors[key]}, folder / name)
        empty_store.put(f"shards/{name}", folder / name)
    index = json.dumps({"metadata": {}, "weight_map": shards}).encode()
    empty_store.put("shards/model.safetensors.index.json", index)
    return empty_store


def same(url, local):
    with prune_gui.open_checkpoint(url) as opened, prune_gui.open_checkpoint(local) as expected:
        return all(torch.equal(opened.read(name), expected.read(name)) for name in expected.tensors)


@pytest.mark.slow
@EVERY_STORE
def test_a_file_a_folder_or_an_index_of_a_bucket_is_opened(filled, local):
    for ending in (
        "net/model.safetensors",
        "net",
        "net/",
        "shards",
        "shards/model.safetensors.index.json",
    ):
        assert same(f"{filled.url}/{ending}", local)


@pytest.mark.slow
@EVERY_STORE
def test_a_file_that_was_changed_is_not_read(filled):
    with prune_gui.open_checkpoint(f"{filled.url}/net/model.safetensors") as opened:
        assert opened.read("first.bias").shape == (300,)
        filled.put("net/model.safetensors", bytes(5_000_000))
        with pytest.raises(CheckpointError, match="was changed since it was opened"):
            opened.read("second.weight")


@pytest.mark.slow
@EVERY_STORE
def test_a_file_that_does_not_exist_is_named(filled):
    with pytest.raises(CheckpointError, match=r"net/other\.safetensors does not exist"):
        prune_gui.open_checkpoint(f"{filled.url}/net/other.safetensors")
    with pytest.raises(CheckpointError, match="without a checkpoint"):
        prune_gui.open_checkpoint(f"{filled.url}/nothing")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("empty_store", "variable", "value", "endings"),
    [
        ("s3", "AWS_SKIP_SIGNATURE", "true", ["net/model.safetensors"]),
        ("az", "AZURE_SKIP_SIGNATURE", "true", ["net/model.safetensors", "net"]),
        ("az", "AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmcga2V5", ["net/model.safetensors", "net"]),
    ],
    indirect=["empty_store"],
)
def test_wrong_credentials_are_one_clear_line(filled, monkeypatch, variable, value, endings):
    monkeypatch.setenv(variable, value)
    forget_connections()
    for ending in endings:
        with pytest.raises(CheckpointError, match="cannot be read without permission") as caught:
            prune_gui.open_checkpoint(f"{filled.url}/{ending}")
        assert value not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("empty_store", ["s3", "az"], indirect=True)
def test_small_files_of_a_bucket_are_those_of_the_folder(filled):
    files = {"net/vocab.txt": b"a\n", "net/1_Pooling/config.json": b"{}", "net/x/model.onnx": b"-"}
    for name, content in files.items():
        filled.put(name, content)
    with prune_gui.open_checkpoint(f"{filled.url}/net") as opened:
        folder = opened.model_files_folder
        assert (folder / "vocab.txt").read_bytes() == b"a\n"
        assert (folder / "1_Pooling" / "config.json").read_bytes() == b"{}"
        assert not (folder / "x" / "model.onnx").exists()


@pytest.mark.slow
@S3
def test_the_files_of_the_provider_are_used(filled, local, monkeypatch, tmp_path):
    server = os.environ["AWS_ENDPOINT_URL"]
    for name in ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION"):
        monkeypatch.delenv(f"AWS_{name}")
    folder = tmp_path / "home" / ".aws"
    folder.mkdir(parents=True)
    (folder / "credentials").write_text(
        f"[mine]\naws_access_key_id = {S3_KEY}\naws_secret_access_key = {S3_SECRET}\n"
    )
    (folder / "config").write_text(
        f"[profile mine]\nregion = eu-central-1\nendpoint_url = {server}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "mine")
    forget_connections()
    store = buckets.bucket_store("s3", filled.url.removeprefix("s3://"))
    assert store.config["region"] == "eu-central-1"
    assert same(f"{filled.url}/net/model.safetensors", local)
    (tmp_path / "large").write_bytes(bytes(uploads.PART_BYTES + 1))
    uploads.upload_file(tmp_path / "large", f"{filled.url}/large", "id", Monitor(), overwrite=False)
    assert stores.stored_nbytes(f"{filled.url}/large") == uploads.PART_BYTES + 1


@pytest.mark.slow
@EVERY_STORE
def test_no_secret_is_kept_or_shown(filled, cache, caplog):
    caplog.set_level("DEBUG")
    with prune_gui.open_checkpoint(f"{filled.url}/net") as opened:
        opened.read("first.weight")
    with pytest.raises(CheckpointError, match="does not exist") as caught:
        prune_gui.open_checkpoint(f"{filled.url}/net/other.safetensors")
    kept = b"".join(path.read_bytes() for path in cache.rglob("*") if path.is_file())
    shown = (caplog.text + str(caught.value)).encode()
    for secret in (S3_KEY.encode(), S3_SECRET.encode(), AZURE_KEY.encode()):
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


@pytest.mark.parametrize(
    ("url", "variable", "text"),
    [
        ("az://container/net.pt", "AZURE_STORAGE_ACCOUNT_NAME", None),
        ("gs://bucket/net.pt", "GOOGLE_SERVICE_ACCOUNT", "/no/such/file.json"),
    ],
)
def test_missing_or_wrong_settings_are_one_message(url, variable, text, monkeypatch):
    forget_connections()
    monkeypatch.delenv(variable, raising=False)
    if text is not None:
        monkeypatch.setenv(variable, text)
    with pytest.raises(CheckpointError, match=r"account or the credentials are missing or invalid"):
        prune_gui.open_checkpoint(url)


def test_without_the_package_one_line_says_what_to_install(server, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(CheckpointError, match=r"Install prune-gui\[remote\] to use them"):
        prune_gui.open_checkpoint(f"{server.url}/model.safetensors")
