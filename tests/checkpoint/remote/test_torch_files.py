"""Torch files on a web server: which bytes are fetched, and that values are those of the file."""

from __future__ import annotations

import pytest
import torch
from corpus_forms import compress

import prune_gui
from prune_gui.checkpoint.remote.fetched_blocks import BLOCK_BYTES
from prune_gui.checkpoint.torch.zip_layout import TorchLayout
from prune_gui.errors import CheckpointError

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
