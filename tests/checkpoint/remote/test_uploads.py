"""Uploads to an object store: what arrives, what a fault leaves, and what is removed after it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import boto3
import obstore
import pytest
import torch
from filelock import FileLock
from gguf_files import write_gguf
from object_stores import forget_connections, use_azure, use_gcs, use_s3
from safetensors.torch import save_file
from system_faults import raising
from upload_proxy import upload_proxy

import prune_gui
from prune_gui.checkpoint.remote import uploads
from prune_gui.checkpoint.remote.buckets import located
from prune_gui.checkpoint.remote.destination import remove_interrupted
from prune_gui.checkpoint.remote.uploads import upload_file
from prune_gui.checkpoint.sharded import writing
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve, verify

pytestmark = pytest.mark.slow

RECIPE = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*"], "amount": 0.5}])
SHARD_BYTES = 20_000_000
INDEX = "model.safetensors.index.json"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


@pytest.fixture
def store(s3_server, monkeypatch, tmp_path):
    """Return a proxy of a server of S3 with an empty bucket, which the environment names."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    use_s3(s3_server, "results", monkeypatch)
    bucket = boto3.resource("s3").Bucket("results")
    bucket.objects.delete()
    with upload_proxy(s3_server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        forget_connections()
        proxy.bucket = bucket
        yield proxy
    forget_connections()


@pytest.fixture
def path(tmp_path):
    """Return a checkpoint that is uploaded in four parts, or as two shards of three and one."""
    tensors = {"a.weight": torch.randn(2200, 2000), "b.weight": torch.randn(1200, 2000)}
    save_file(tensors, tmp_path / "net.safetensors")
    return tmp_path / "net.safetensors"


@pytest.fixture
def resolution(path):
    with prune_gui.open_checkpoint(path) as checkpoint:
        yield resolve(RECIPE, checkpoint)


def left(store):
    pending = [each.object_key for each in store.bucket.multipart_uploads.all()]
    return [each.key for each in store.bucket.objects.all()], pending


def content(store, key):
    return store.bucket.Object(key).get()["Body"].read()


def act_at_part(store, number, act):
    parts = []

    def count(method, path):
        if method == "PUT" and "partNumber" in path:
            parts.append(path)
            if len(parts) == number:
                act()

    store.before_answer = count


@pytest.mark.parametrize("faults", [[], ["503", "503"], ["cut", "", "cut"], ["slow"]])
def test_the_bytes_are_those_of_a_local_file(store, resolution, tmp_path, faults):
    store.faults = faults
    export(resolution, "s3://results/net/pruned.safetensors")
    export(resolution, tmp_path / "local.safetensors")
    assert content(store, "net/pruned.safetensors") == (tmp_path / "local.safetensors").read_bytes()
    assert left(store) == (["net/pruned.safetensors"], [])
    assert not store.faults
    assert verify("s3://results/net/pruned.safetensors").problems == []


@pytest.fixture(params=["az", "gs"])
def other_url(request, monkeypatch, tmp_path):
    """Return the URL of an empty bucket of another store than S3."""
    if request.param == "gs":
        proxy = request.getfixturevalue("store")
        return use_gcs(
            proxy.url, f"bucket{time.time_ns()}", monkeypatch, tmp_path / "account.json"
        ).url
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    server = request.getfixturevalue("azure_server")
    forget_connections()
    return use_azure(server, f"container{time.time_ns()}", monkeypatch).url


def test_other_stores_get_the_same_bytes(other_url, resolution, tmp_path):
    url = f"{other_url}/net/pruned.safetensors"
    export(resolution, url)
    export(resolution, tmp_path / "local.safetensors")
    with prune_gui.open_checkpoint(url) as remote:
        remote.fetch(Monitor())
        with remote.source.open_again() as file:
            assert file.read() == (tmp_path / "local.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match="already exists"):
        export(resolution, url)
    export(resolution, url, overwrite=True)
    export(resolution, f"{other_url}/shards", shard_size=SHARD_BYTES)
    assert verify(f"{other_url}/shards").problems == []
    with pytest.raises(CheckpointError, match="is not empty"):
        export(resolution, f"{other_url}/shards", shard_size=SHARD_BYTES)


@pytest.mark.parametrize("nbytes", [1_000_000, 20_000_000])
def test_what_appears_in_other_stores_during_the_upload_is_kept(other_url, tmp_path, nbytes):
    (tmp_path / "file").write_bytes(bytes(nbytes))
    url = f"{other_url}/file"

    def appear(done, _):
        if done == nbytes:  # a thread, because obstore handles one request on each
            thread = threading.Thread(target=obstore.put, args=(*located(url), b"new"))
            thread.start()
            thread.join()

    with pytest.raises(CheckpointError, match="already exists"):
        upload_file(tmp_path / "file", url, "id", Monitor(appear), overwrite=False)
    store, key = located(url)
    assert [each["path"] for each in obstore.list(store).collect()] == ["file"]
    assert obstore.get(store, key).bytes() == b"new"


@pytest.fixture
def parts(tmp_path):
    (tmp_path / "parts").mkdir()
    write_gguf(tmp_path / "parts" / "m.gguf", split_max_tensors=2)
    return tmp_path / "parts"


@pytest.mark.parametrize(
    ("source", "name", "main", "options"),
    [
        ("path", "pruned.pt", "pruned.pt", {"form": "reparametrized"}),
        ("path", "pruned.pt", "pruned.pt", {"form": "masks"}),
        ("path", "net", INDEX, {"shard_size": SHARD_BYTES}),
        ("parts", "net", "m-00001-of-00003.gguf", {}),
    ],
    ids=["pairs", "masks", "shards", "parts"],
)
def test_files_are_those_of_a_local_save_and_the_main_one_is_last(
    store, request, tmp_path, source, name, main, options
):
    (tmp_path / "out").mkdir()
    with prune_gui.open_checkpoint(request.getfixturevalue(source)) as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        export(resolution, f"s3://results/{name}", **options)
        export(resolution, tmp_path / "out" / name, **options)
    local = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    keys, pending = left(store)
    assert pending == []
    assert {key: content(store, key) for key in keys} == local
    assert main in [path for method, path in store.requests if method in ("PUT", "POST")][-1]
    if name == "net":
        with prune_gui.open_checkpoint("s3://results/net") as checkpoint:
            export(resolve(RECIPE, checkpoint), "s3://results/again")
        assert len(left(store)[0]) == 2 * len(keys)


def test_a_shard_is_written_while_the_one_before_is_uploaded(store, resolution, cache):
    def wait_for_next(method, path):
        end = time.monotonic() + 20
        while "partNumber" in path and SHARDS[0] in path and not beside:
            assert time.monotonic() < end
            beside.extend((cache / "uploads").rglob(SHARDS[1]))
            time.sleep(0.01)

    beside = []
    store.before_answer = wait_for_next
    export(resolution, "s3://results/net", shard_size=SHARD_BYTES)
    assert beside
    assert left(store) == ([f"net/{name}" for name in (*SHARDS, INDEX)], [])


def test_an_error_while_a_shard_is_written_stops_the_upload_of_the_one_before(
    store, resolution, cache, monkeypatch
):
    def write_one(path, *arguments):
        if path.name == SHARDS[1]:
            assert uploading.wait(20)
            failed.set()
            raise CheckpointError("The disk is full.")
        return write_file(path, *arguments)

    def hold_back(method, path):
        if "partNumber" in path:
            uploading.set()
            assert failed.wait(20)

    uploading, failed, write_file = threading.Event(), threading.Event(), writing.write_file
    monkeypatch.setattr(writing, "write_file", write_one)
    store.before_answer = hold_back
    with pytest.raises(CheckpointError, match="disk is full"):
        export(resolution, "s3://results/net", shard_size=SHARD_BYTES)
    assert left(store) == ([], [])
    assert list((cache / "uploads").iterdir()) == []


@pytest.mark.parametrize("has_digests", [True, False])
@pytest.mark.parametrize("where", ["pruned.safetensors", "folder"])
def test_a_part_that_arrives_changed_is_found(store, resolution, where, has_digests):
    store.faults = ["", "corrupt"]
    store.has_digests = has_digests
    size = SHARD_BYTES if where == "folder" else None
    with pytest.raises(CheckpointError, match="differs from the file"):
        export(resolution, f"s3://results/{where}", shard_size=size)
    assert left(store) == ([], [])


@pytest.mark.parametrize(
    ("faults", "bucket", "message"),
    [
        (["403"], "results", "without permission"),
        (["520"] * 4, "results", r"cannot be written: 520 Error\."),  # no standard has it
        ([], "other", r"s3://other/.* cannot be written: 404 Not Found"),
    ],
)
def test_a_refusal_of_the_store_is_one_message(store, resolution, faults, bucket, message):
    store.faults = faults
    with pytest.raises(CheckpointError, match=message):
        export(resolution, f"s3://{bucket}/pruned.safetensors")
    assert left(store) == ([], [])


@pytest.mark.parametrize(("where", "files"), [("pruned.safetensors", 1), ("folder", 2)])
def test_a_cancelled_upload_leaves_nothing(store, resolution, cache, where, files):
    cancel = threading.Event()

    def cancel_at_last_file(method, path):
        if path.endswith(("?uploads", "?uploads=")):
            started.append(path)
            if len(started) == files:
                cancel.set()

    started = []
    store.before_answer = cancel_at_last_file
    size = SHARD_BYTES if where == "folder" else None
    with pytest.raises(Cancelled):
        export(resolution, f"s3://results/{where}", cancel=cancel, shard_size=size)
    assert left(store) == ([], [])
    assert list((cache / "uploads").iterdir()) == []


def test_a_file_is_replaced_only_if_that_is_allowed(store, resolution):
    store.bucket.put_object(Key="pruned.safetensors", Body=b"old")
    with pytest.raises(CheckpointError, match="already exists"):
        export(resolution, "s3://results/pruned.safetensors")
    seen = []
    act_at_part(store, 3, lambda: seen.append(content(store, "pruned.safetensors")))
    export(resolution, "s3://results/pruned.safetensors", overwrite=True)
    assert seen == [b"old"]
    assert len(content(store, "pruned.safetensors")) > SHARD_BYTES


@pytest.mark.parametrize("query", ["?uploads", "?uploadId="])
def test_a_file_that_appears_during_the_upload_is_not_replaced(store, resolution, query):
    def appear(method, path):
        if method == "POST" and query in path:
            store.bucket.put_object(Key="pruned.safetensors", Body=b"new")

    store.before_answer = appear
    with pytest.raises(CheckpointError, match="already exists"):
        export(resolution, "s3://results/pruned.safetensors")
    assert content(store, "pruned.safetensors") == b"new"
    assert left(store) == (["pruned.safetensors"], [])


@pytest.mark.parametrize(
    ("url", "size", "message"),
    [
        ("https://host/net.safetensors", None, "cannot be written. Save into an object store"),
        ("hf://owner/net", 100, "cannot be written. Save into an object store"),
        ("s3://results/full", 100, "is not empty, and remote folders are not replaced"),
        ("s3://results/net.txt", None, r"\.txt"),
    ],
)
def test_what_cannot_be_written_is_refused_at_first(store, resolution, url, size, message):
    store.bucket.put_object(Key="full/file", Body=b"content")
    with pytest.raises(CheckpointError, match=message):
        export(resolution, url, overwrite=True, shard_size=size)
    assert not any("uploads" in path for _, path in store.requests)


def test_the_object_of_a_lost_worker_of_the_same_upload_is_verified(store, tmp_path):
    (tmp_path / "file").write_bytes(bytes(20_000_000))

    def appear(method, path):
        if method == "POST" and "?uploadId=" in path:
            metadata = {uploads.ID_ATTRIBUTE: "id"}
            store.bucket.put_object(Key="file", Body=body, Metadata=metadata)

    store.before_answer = appear
    body = bytes(20_000_000)
    upload_file(tmp_path / "file", "s3://results/file", "id", Monitor(), overwrite=False)
    assert left(store) == (["file"], [])
    store.bucket.objects.delete()
    body = b"cut off"
    with pytest.raises(CheckpointError, match="differs from the file"):
        upload_file(tmp_path / "file", "s3://results/file", "id", Monitor(), overwrite=False)
    assert left(store) == ([], [])


def test_missing_credentials_are_one_message(store, resolution, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(CheckpointError, match="without permission"):
        export(resolution, "s3://results/pruned.safetensors")


def test_the_open_checkpoint_is_not_replaced(store, path):
    store.bucket.upload_file(str(path), "net.safetensors")
    with prune_gui.open_checkpoint("s3://results/net.safetensors") as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        with pytest.raises(CheckpointError, match="is open"):
            export(resolution, "s3://results/net.safetensors", overwrite=True)


def apply(path: Path, url: str, *options: str) -> subprocess.Popen:
    recipe = path.with_name("recipe.yaml")
    recipe.write_text(RECIPE.to_yaml())
    program = [sys.executable, "-m", "prune_gui", "apply", str(recipe), str(path), "-o", url]
    return subprocess.Popen([*program, *options], stderr=subprocess.PIPE, text=True)


def kill_at_part(store, path, number, url, *options):
    arrived = threading.Event()
    act_at_part(store, number, arrived.set)
    with apply(path, url, *options) as process:
        assert arrived.wait(60)
        process.kill()
    store.before_answer = lambda *_: None


@pytest.mark.parametrize(
    "sharded", [pytest.param(False, marks=pytest.mark.very_slow), True], ids=["file", "shards"]
)
def test_what_a_kill_leaves_is_named_and_removed_by_the_next_upload(store, path, sharded):
    options = ["--shard-size", "20MB"] if sharded else []
    url = "s3://results/folder" if sharded else "s3://results/pruned.safetensors"
    store.faults = ["slow"] * 4
    kill_at_part(store, path, 4, url, *options)
    objects, pending = left(store)
    assert pending
    assert objects == ([f"folder/{SHARDS[0]}"] if sharded else [])
    with apply(path, "s3://results/other.safetensors") as process:
        _, message = process.communicate(timeout=60)
    main = f"{url}/{INDEX}" if sharded else url
    assert f"Removed what an interrupted upload to {main} left." in message
    assert left(store) == (["other.safetensors"], [])
    assert remove_interrupted() == []


@pytest.mark.very_slow
def test_objects_of_others_and_running_uploads_are_not_removed(store, path, resolution):
    kill_at_part(store, path, 4, "s3://results/net", "--shard-size", "20MB")
    store.bucket.put_object(Key=f"net/{SHARDS[0]}", Body=b"of another program")
    found = []
    act_at_part(store, 2, lambda: found.extend(remove_interrupted()))
    export(resolution, "s3://results/pruned.safetensors")
    assert left(store) == ([f"net/{SHARDS[0]}", "pruned.safetensors"], [])
    assert found == []


@pytest.mark.very_slow
def test_what_cannot_be_removed_now_is_removed_later(store, path, monkeypatch, caplog):
    kill_at_part(store, path, 4, "s3://results/net", "--shard-size", "20MB")
    removing = uploads.remove_parts
    failure = CheckpointError("s3://results cannot be written: no complete answer.")
    monkeypatch.setattr(uploads, "remove_parts", raising(failure))
    assert remove_interrupted() == []
    assert "The next upload removes what is left" in caplog.text
    monkeypatch.setattr(uploads, "remove_parts", removing)
    assert remove_interrupted() == [f"s3://results/net/{INDEX}"]
    assert left(store) == ([], [])


@pytest.mark.very_slow
def test_ctrl_c_removes_what_was_uploaded(store, path):
    arrived = threading.Event()
    act_at_part(store, 4, arrived.set)
    store.faults = ["slow"] * 4
    with apply(path, "s3://results/net", "--shard-size", "20MB") as process:
        assert arrived.wait(60)
        os.kill(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in message
    assert left(store) == ([], [])


def test_a_lock_that_a_killed_process_left_without_a_record_is_removed(cache):
    folder = cache / "uploads"
    folder.mkdir(parents=True)
    with FileLock(folder / "running.lock"):
        (folder / "killed.lock").touch()
        assert remove_interrupted() == []
        assert [path.name for path in folder.iterdir()] == ["running.lock"]
