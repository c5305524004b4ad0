"""Checkpoints on a web server that answers ranges: what is fetched, faults, changes."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import torch
from corpus_forms import compress
from gguf_files import write_gguf
from safetensors.torch import save_file

import prune_gui
from prune_gui.checkpoint.remote import fetched_blocks as blocks_module
from prune_gui.checkpoint.remote.fetched_blocks import BLOCK_BYTES, MAX_REQUEST_BYTES, RemoteSource
from prune_gui.checkpoint.torch.zip_layout import TorchLayout
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.monitor import Monitor


def all_equal(opened, path):
    with prune_gui.open_checkpoint(path) as local:
        assert list(local.tensors) == list(opened.tensors)
        return all(torch.equal(local.read(name), opened.read(name)) for name in local.tensors)


def test_opening_fetches_the_header_and_reading_what_is_read(server, local):
    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors") as opened:
        assert server.fetched() == BLOCK_BYTES
        assert opened.url == f"{server.url}/model.safetensors"
        opened.view("first.bias")
        assert server.fetched() == BLOCK_BYTES  # it is in the same block
        assert opened.missing_nbytes(["first.bias"]) == 0
        missing_nbytes = opened.missing_nbytes(["first.weight"])
        opened.view("first.weight")
        assert server.fetched() == BLOCK_BYTES + missing_nbytes
        assert opened.missing_nbytes(["first.weight"]) == 0 < opened.missing_nbytes(opened.tensors)
        assert all_equal(opened, local)
    assert server.fetched() == local.stat().st_size  # nothing twice


def test_what_was_fetched_is_kept_until_the_file_changes(server, local):
    url = f"{server.url}/model.safetensors"
    for _ in range(2):
        with ThreadPoolExecutor(1) as other_thread:  # than that which closes the file
            opened = other_thread.submit(prune_gui.open_checkpoint, url).result()
        with opened:
            assert all_equal(opened, local)
        assert server.fetched() == local.stat().st_size
    save_file({"other": torch.ones(5)}, local)
    with prune_gui.open_checkpoint(url) as opened:
        assert opened.read("other").tolist() == [1] * 5


TENSORS = {"w": torch.arange(600.0).reshape(20, 30), "b": torch.ones(20)}


def write_keras(path):
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = TENSORS["w"].numpy()


WRITERS = {
    ".pt": lambda path: torch.save(TENSORS, path),
    ".npz": lambda path: np.savez(path, **{key: each.numpy() for key, each in TENSORS.items()}),
    ".gguf": write_gguf,
    ".weights.h5": write_keras,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_files_of_every_format_can_be_remote(server, folder, suffix):
    path = folder / f"model{suffix}"
    WRITERS[suffix](path)
    with prune_gui.open_checkpoint(f"{server.url}/{path.name}") as opened:
        assert all_equal(opened, path)


def shards(folder):
    tensors = {f"layer{i}.weight": torch.randn(40, 50) for i in range(4)}
    names = [f"model-0000{i + 1}-of-00002.safetensors" for i in range(2)]
    weight_map = {key: names[i % 2] for i, key in enumerate(tensors)}
    for name in names:
        save_file({key: tensors[key] for key in tensors if weight_map[key] == name}, folder / name)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return index


@pytest.mark.parametrize("opened_as", ["", "/", "/model.safetensors.index.json"])
def test_shards_are_opened_by_their_index_or_folder(server, folder, opened_as):
    inner = folder / "inner"
    inner.mkdir()
    index = shards(inner)
    with prune_gui.open_checkpoint(f"{server.url}/inner{opened_as}") as opened:
        assert opened.model_types == ("llama",)
        assert all_equal(opened, index)


@pytest.mark.parametrize("opened_as", ["m-00001-of-00003.gguf", "m-00003-of-00003.gguf"])
def test_any_part_of_a_split_file_opens_all_of_them(server, folder, opened_as):
    write_gguf(folder / "m.gguf", split_max_tensors=2)
    with prune_gui.open_checkpoint(f"{server.url}/{opened_as}") as opened:
        assert len(opened.files) == 3
        assert all_equal(opened, folder / opened_as)
    (folder / "m-00002-of-00003.gguf").unlink()
    with pytest.raises(CheckpointError, match=r"m-00002-of-00003\.gguf"):
        prune_gui.open_checkpoint(f"{server.url}/{opened_as}")


def test_a_missing_shard_is_named(server, folder):
    index = shards(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors does not exist"):
        prune_gui.open_checkpoint(f"{server.url}/{index.name}")


@pytest.mark.parametrize("fault", ["503", "cut", "slow", "other range"])
def test_a_fault_of_the_server_is_overcome(server, local, fault):
    server.faults = [fault] * 2
    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors") as opened:
        assert all_equal(opened, local)
    assert not server.faults


def test_errors_of_the_server_are_one_clear_line(server):
    url = f"{server.url}/model.safetensors"
    with pytest.raises(CheckpointError, match=r"other\.safetensors does not exist\. Check the URL"):
        prune_gui.open_checkpoint(f"{server.url}/other.safetensors")
    with pytest.raises(CheckpointError, match="does not list its files"):
        prune_gui.open_checkpoint(f"{server.url}/nothing")
    server.faults = ["403"]
    with pytest.raises(CheckpointError, match="cannot be read without permission"):
        prune_gui.open_checkpoint(url)
    server.faults = ["whole"]
    with pytest.raises(CheckpointError, match="the server ignores ranges"):
        prune_gui.open_checkpoint(url)
    server.faults = ["cut"] * 1000
    with pytest.raises(CheckpointError, match="cannot be reached: no complete answer"):
        prune_gui.open_checkpoint(url)


@pytest.mark.parametrize("has_tags", [True, False])
def test_a_change_while_a_file_is_open_is_noticed(server, local, has_tags):
    server.has_tags = has_tags
    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors") as opened:
        octets = bytearray(local.read_bytes())
        octets[-1] ^= 1
        local.write_bytes(octets)
        if not has_tags:
            os.utime(local, (1, 1))  # the times in answers are in seconds
        with pytest.raises(CheckpointError, match="was changed since it was opened"):
            opened.read("second.weight")


def test_a_change_is_noticed_without_a_fetch(server, local, monkeypatch):
    monkeypatch.setattr("prune_gui.checkpoint.remote.fetched_blocks.CHECK_INTERVAL_S", 0)
    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors") as opened:
        opened.read("second.weight")
        save_file({"other": torch.ones(5)}, local)
        with pytest.raises(CheckpointError, match="was changed since it was opened"):
            opened.read("second.weight")


def test_many_threads_fetch_each_block_once(server, local):
    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors") as opened:
        with ThreadPoolExecutor(6) as threads:
            assert len([*threads.map(opened.read, ["second.weight"] * 6)]) == 6
        assert server.fetched() == local.stat().st_size


def test_fetching_can_be_cancelled(server, monkeypatch):
    monkeypatch.setattr(blocks_module, "MAX_REQUEST_BYTES", BLOCK_BYTES)
    cancel = threading.Event()
    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors") as opened:
        server.faults = ["slow"] * 100
        server.before_answer = lambda _: cancel.set()
        with Monitor(cancel=cancel).in_charge(), pytest.raises(Cancelled):
            opened.read("second.weight")
        server.faults = []
        assert opened.read("second.weight").shape == (700, 900)  # the rest can be fetched later


def test_the_oldest_files_make_room_in_the_cache(server, folder, cache, monkeypatch):
    monkeypatch.setenv("PRUNE_GUI_REMOTE_CACHE", "6MB")
    for name in "ab":
        save_file({"w": torch.zeros(1_000_000)}, folder / f"{name}.safetensors")
        with prune_gui.open_checkpoint(f"{server.url}/{name}.safetensors") as opened:
            view = opened.read("w")
    assert len([*(cache / "blocks").glob("*.data")]) == 1
    save_file({"w": torch.full((3_000_000,), 7.0)}, folder / "c.safetensors")
    with prune_gui.open_checkpoint(f"{server.url}/c.safetensors") as opened:
        assert opened.read("w").unique().tolist() == [7]  # larger than the cache
        assert opened.fingerprint(Monitor())
    assert view.unique().tolist() == [0]


def test_the_limit_of_the_cache_has_to_be_a_size(server, monkeypatch):
    monkeypatch.setenv("PRUNE_GUI_REMOTE_CACHE", "much")
    with pytest.raises(CheckpointError, match="PRUNE_GUI_REMOTE_CACHE: 'much' is not a size"):
        prune_gui.open_checkpoint(f"{server.url}/model.safetensors")


def test_a_damaged_list_of_blocks_is_not_used(server, local, cache):
    url = f"{server.url}/model.safetensors"
    with prune_gui.open_checkpoint(url) as opened:
        opened.read("second.weight")
    [present] = (cache / "blocks").glob("*.present")
    present.write_bytes(b"")
    with prune_gui.open_checkpoint(url) as opened:
        assert all_equal(opened, local)


def test_no_local_file_can_be_mistaken_for_the_remote_one(server, cache):
    with prune_gui.open_checkpoint(f"{server.url}/model.safetensors") as opened:
        opened.read("first.weight")
        assert opened.path.read_bytes() == b""
        assert isinstance(opened.source, RemoteSource)


def test_requests_are_large_and_few(server, folder, monkeypatch):
    save_file({"w": torch.zeros(5 * MAX_REQUEST_BYTES // 4)}, folder / "large.safetensors")
    with prune_gui.open_checkpoint(f"{server.url}/large.safetensors") as opened:
        opened.read("w")
    spans = [span for _, path, span in server.requests if span and "large" in path]
    assert len(spans) == 1 + 5


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_what_is_missing_of_a_pair_in_a_shard_is_counted(server, folder, suffix):
    tensors = {
        "a.weight_orig": torch.randn(300, 300),
        "a.weight_mask": torch.ones(300, 300),
        "b.weight": torch.randn(300, 300),
    }
    shard = f"model-00001-of-00001.{suffix}"
    save = save_file if suffix == "safetensors" else torch.save
    save(tensors, folder / shard)
    index = folder / f"model.{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(tensors, shard)}))
    with prune_gui.open_checkpoint(f"{server.url}/{index.name}") as opened:
        assert opened.missing_nbytes(["a.weight"]) > 0
        opened.read("a.weight")
        opened.read_mask("a.weight")
        assert opened.missing_nbytes(["a.weight"]) == 0
        assert all_equal(opened, index)


pytestmark = [
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
]
COUNT = 6
RECIPE = prune_gui.Recipe.from_yaml("""
version: 1
steps: [{method: l1_unstructured, targets: ["*weight"], scope: global, amount: 0.5}]
""")


@pytest.fixture
def large(folder):
    path = folder / "model.pt"
    torch.save({f"layer{i}.weight": torch.randn(500, 500) for i in range(COUNT)}, path)
    return path


def test_opening_fetches_the_directory_and_the_pickle(server, large):
    with (
        prune_gui.open_checkpoint(f"{server.url}/{large.name}") as opened,
        prune_gui.open_checkpoint(large) as local,
    ):
        assert list(opened.tensors.values()) == list(local.tensors.values())
        assert len([span for method, _, span in server.requests if method == "GET" and span]) <= 3
        before = server.fetched()
        assert before <= 3 * BLOCK_BYTES
        assert opened.missing_nbytes(["layer3.weight"]) >= 1_000_000 - BLOCK_BYTES
        assert torch.equal(opened.view("layer3.weight"), local.view("layer3.weight"))
        assert server.fetched() - before <= 1_000_000 + 2 * BLOCK_BYTES
        assert opened.missing_nbytes(["layer3.weight"]) == 0
        span = opened.view_span("layer1.weight", 1000, 2000)
        assert torch.equal(span, local.view("layer1.weight").reshape(-1)[1000:2000])
        assert server.fetched() - before <= 1_000_000 + 4 * BLOCK_BYTES
        for name in local.tensors:
            assert torch.equal(opened.read(name), local.read(name))
    assert server.fetched() == large.stat().st_size  # nothing twice
    assert opened.state == {}


def trained():
    model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Linear(40, 5))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(8, 30)).square().sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def views():
    flat = torch.randn(1000)
    z, other = torch.randn(2, 20, 20, dtype=torch.complex64).unbind()
    return {
        "flat": flat[:600].reshape(20, 30),
        "tied": flat[:600].reshape(20, 30),
        "overlapping": flat[300:],
        "strided.weight": torch.randn(20, 30).t(),
        "repeated": torch.randn(1).expand(9),
        "conjugate": z.clone().conj(),
        "negative": other.clone().conj().imag,
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 4),
        "odd": torch.arange(7, dtype=torch.uint8),
        "parameter": torch.nn.Parameter(torch.randn(3, 3)),
        "meta": torch.empty(3, device="meta"),
    }


def special():
    weights = torch.randn(6, 8)
    scales, zeros = torch.rand(6).double() + 0.1, torch.zeros(6)
    return {
        "weight": weights,
        "sparse": torch.eye(5).to_sparse(),
        "quantized": torch.quantize_per_channel(weights, scales, zeros, 0, torch.qint8),
    }


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (trained, {}),
        (trained, {"zero_moments": True}),
        (trained, {"form": "reparametrized"}),
        (views, {}),
        (views, {"form": "reparametrized"}),
        (special, {"form": "reparametrized"}),
    ],
)
def test_what_is_written_equals_what_a_local_file_gives(server, folder, tmp_path, content, options):
    torch.save(content(), folder / "model.pt")
    written = []
    for number, where in enumerate((folder / "model.pt", f"{server.url}/model.pt")):
        out = tmp_path / f"{number}.pt"
        with prune_gui.open_checkpoint(where) as opened:
            resolution = prune_gui.resolve(RECIPE, opened)
            prune_gui.export(resolution, out, **options)
        written.append(out.read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("content", [trained, views, special])
@pytest.mark.parametrize("saved", ["zip", "legacy", "compressed"])
def test_values_of_every_kind_of_file_are_those_of_the_local_one(server, folder, content, saved):
    path = folder / "model.pt"
    torch.save(content(), path, _use_new_zipfile_serialization=saved != "legacy")
    if saved == "compressed":
        compress(path)
    with (
        prune_gui.open_checkpoint(path) as local,
        prune_gui.open_checkpoint(f"{server.url}/model.pt") as opened,
    ):
        for key in local.keys:
            mine, expected = opened.read_key(key), local.read_key(key)
            if expected.is_meta:
                assert mine.is_meta
            elif expected.layout == torch.strided and not expected.is_quantized:
                assert torch.equal(mine, expected)
                assert mine.dtype == expected.dtype
            else:
                dense = torch.Tensor.to_dense if expected.is_sparse else torch.dequantize
                assert torch.equal(dense(mine), dense(expected))


def test_moments_of_an_optimizer_are_fetched_for_the_step_that_ranks_by_them(server, folder):
    torch.save(trained(), folder / "model.pt")
    recipe = prune_gui.Recipe.from_yaml("""
version: 1
steps: [{method: l1_unstructured, targets: ["*weight"], amount: 0.5, importance: optimizer}]
""")
    masks = []
    for where in (folder / "model.pt", f"{server.url}/model.pt"):
        with prune_gui.open_checkpoint(where) as opened:
            resolution = prune_gui.resolve(recipe, opened)
            masks.append(resolution.mask("0.weight"))
    assert torch.equal(*masks)


def test_a_damaged_record_is_one_clear_line_when_it_is_read(server, large):
    with large.open("rb") as file:
        layout = TorchLayout(file, large.stat().st_size)
        offset = layout.records["data/3"].entry.header_offset
    with large.open("r+b") as file:
        file.seek(offset)
        file.write(b"XX")
    with prune_gui.open_checkpoint(f"{server.url}/{large.name}") as opened:
        opened.read("layer2.weight")
        with pytest.raises(CheckpointError, match=r"model\.pt cannot be opened: the records"):
            opened.read("layer3.weight")
        with pytest.raises(CheckpointError, match="Download the file again"):
            opened.view_span("layer3.weight", 0, 1)
