import json
import threading
from itertools import pairwise
from math import inf

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, resolve
from prune_gui.statistics.file_zeros import FileZeros
from prune_gui.statistics.zero_scan import ZeroScan

MASK = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]).repeat(100, 50)


def _tensors():
    generator = torch.Generator().manual_seed(0)

    def sparse(*shape):
        weights = torch.randn(shape, generator=generator)
        return weights * (torch.rand(shape, generator=generator) > 0.3)

    n_m = torch.randn(160, 160, generator=generator)
    n_m.reshape(-1, 4)[:, 1:3] = -0.0
    return {
        "layer.0.bias": sparse(40),
        "layer.0.weight": sparse(200, 100),
        "long": sparse(40_000),
        "tall": sparse(30_000, 1),
        "half": sparse(160, 128).bfloat16(),
        "eighth": sparse(160, 128).to(torch.float8_e4m3fnuz),
        "conv": sparse(8, 4, 3, 3),
        "n_m": n_m,
        "scalar": torch.tensor(0.0),
        "steps": torch.zeros(3, dtype=torch.int64),
        "pair_orig": sparse(300, 100),
        "pair_mask": MASK,
    }


@pytest.fixture(scope="module", params=["safetensors", "torch", "shards"])
def path(request, tmp_path_factory):
    folder, tensors = tmp_path_factory.mktemp("zeros"), _tensors()
    if request.param == "torch":
        torch.save({"state_dict": tensors}, folder / "w.pt")
        return folder / "w.pt"
    if request.param == "safetensors":
        save_file(tensors, folder / "w.safetensors")
        return folder / "w.safetensors"
    names = {name: f"w-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(names.values()):
        save_file({name: tensors[name] for name in names if names[name] == file}, folder / file)
    index = folder / "w.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return index


def test_the_zeros_are_those_that_a_recipe_from_zeros_counts_as_pruned(path):
    with open_checkpoint(path) as checkpoint:
        found = ZeroScan(checkpoint).advance(inf, Monitor())
        pruned = resolve(Recipe(start="zeros"), checkpoint)
        assert dict(found.counts) == {name: count for name, (count, _) in pruned.counts.items()}
        assert (found.zeros, found.elements) == pruned.total
        assert found.is_complete
        assert found.patterns["n_m"].n_m == "2:4"
        assert {"long", "scalar", "layer.0.bias"}.isdisjoint(found.patterns)
        for name, patterns in found.patterns.items():
            assert (patterns.zeros, patterns.total) == pruned.counts[name]


def test_short_slices_find_the_same_and_only_ever_more(path):
    with open_checkpoint(path) as checkpoint:
        whole = ZeroScan(checkpoint).advance(inf, Monitor())
        scan, slices = ZeroScan(checkpoint), []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("prune_gui.parallel.CHUNK_ELEMENTS", 512)
            patch.setattr("torch.get_num_threads", lambda: 2)  # a slice has spans for each thread
            while not slices or not slices[-1].is_complete:
                slices.append(scan.advance(0.0, Monitor()))
    assert slices[-1] == whole
    assert len(slices) > 20
    done = [one.done for one in slices]
    assert done == sorted(done)
    for before, after in pairwise(slices):
        assert before.counts.items() <= after.counts.items()


def test_a_cancelled_count_can_be_continued(path):
    cancel = threading.Event()
    cancel.set()
    with open_checkpoint(path) as checkpoint:
        scan = ZeroScan(checkpoint)
        with pytest.raises(Cancelled):
            scan.advance(inf, Monitor(cancel=cancel))
        whole = ZeroScan(checkpoint).advance(inf, Monitor())
        assert scan.advance(inf, Monitor()) == whole


def test_zeros_of_the_first_weights_that_are_read_are_few_in_the_file():
    assert not FileZeros({"w": 10}, done=8, total=800, elements=100).is_noticeable
    assert FileZeros({"w": 10}, done=800, total=800, elements=100).is_noticeable


def test_totals_leave_out_running_statistics(in_memory):
    norm = {"n.weight": torch.ones(4), "n.running_mean": torch.zeros(6)}
    found = ZeroScan(in_memory(norm)).advance(inf, Monitor())
    assert (found.zeros, found.elements, found.is_noticeable) == (0, 4, False)
    assert found.counts["n.running_mean"] == 6
    alone = ZeroScan(in_memory({"n.running_mean": torch.zeros(6)})).advance(inf, Monitor())
    assert (alone.zeros, alone.elements) == (6, 6)


def test_zeros_are_noticeable_unless_they_count_as_pruned_or_are_few(in_memory):
    def noticeable(recipe=None, **tensors):
        checkpoint = in_memory(tensors)
        zeros = ZeroScan(checkpoint).advance(inf, Monitor())
        return zeros.noticeable(resolve(recipe or Recipe(), checkpoint).counts)

    dense = torch.ones(1000, 100)
    tenth = torch.ones(10, 100)
    tenth[0] = 0
    assert not noticeable(a=dense)
    assert noticeable(a=dense, b=tenth) == 100  # many of the parameter
    assert not noticeable(a=dense, b=tenth[0])  # a bias that begins with zeros
    assert noticeable(a=tenth, b=tenth[0]) == 200  # many of the file
    assert not noticeable(Recipe(start="zeros"), a=dense, b=tenth)
