"""Sizes computed before saving, compared with those of the written files."""

import json
import threading
from pathlib import Path

import pytest
import torch
from applied import applied, exported
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from sharded_files import INDEX, divided, write_shards
from written_files import size_of

from prune_gui.errors import Cancelled, CheckpointError, RecipeError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Size, export, sizes
from prune_gui.recipe.form_tensors import parts

HALF = {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5, "scope": "global"}
FORMS = ("finalized", "reparametrized", "masks")
"""The forms that any network has; the compact one is tested with networks that have units."""
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float64]

steps = st.lists(
    st.fixed_dictionaries(
        {
            "method": st.sampled_from(["l1_unstructured", "random_unstructured"]),
            "targets": st.sampled_from([["*weight"], ["*0.weight"], ["*", "!*1.*"]]),
            "amount": st.floats(0, 1),
        }
    ),
    max_size=3,
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
metadata = st.dictionaries(names, names, max_size=3)
shapes = st.lists(st.integers(1, 7), max_size=3)
tensors = st.lists(st.tuples(st.sampled_from(DTYPES), shapes), min_size=2, max_size=5)


def made(kinds) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {f"w{i}.weight": torch.randn(shape).to(dtype) for i, (dtype, shape) in enumerate(kinds)}


def compare(source, folder: Path, recipe: Recipe, outs: dict[str, int | None]) -> dict[str, int]:
    """Compare each computed size with that of the written file; return how many were compared."""
    compared = dict.fromkeys(outs, 0)
    with applied(source, recipe) as resolution:
        for name, shard_size in outs.items():
            for form, told in sizes(resolution, folder / name, shard_size).items():
                out = folder / form / name
                out.parent.mkdir(exist_ok=True)
                if not isinstance(told, Size):
                    with pytest.raises(
                        type(told), match=r"no masks|belong together|made compact|nothing can"
                    ):
                        export(resolution, out, form, shard_size=shard_size)
                    continue
                export(resolution, out, form, shard_size=shard_size)
                assert told.nbytes == size_of(out)
                compared[name] += 1
    return compared


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(tensors, steps, metadata, st.integers(1, 400))
def test_the_computed_size_is_that_of_the_written_file(
    tmp_path_factory, kinds, some_steps, said, shard_size
):
    folder = tmp_path_factory.mktemp("sizes")
    save_file(made(kinds), folder / "in.safetensors", said)
    outs = {"one.safetensors": None, "split": shard_size, "one.pt": None}
    compared = compare(folder / "in.safetensors", folder, Recipe(steps=some_steps), outs)
    assert min(compared.values()) >= 2


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(tensors, steps, metadata)
def test_the_computed_size_is_exact_for_shards_and_pairs(tmp_path_factory, kinds, some_steps, said):
    folder = tmp_path_factory.mktemp("shards")
    found = made(kinds)
    shards = divided(found, lambda i, _: f"m-{i % 2}.safetensors")
    write_shards(folder, shards)
    for name, held in shards.items():
        save_file(held, folder / name, {**said, "own": name})
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({**index, "metadata": {"total_size": 3, **said}}))
    recipe = Recipe(steps=some_steps)
    source = folder / INDEX
    assert compare(source, folder, recipe, {"out": None, "o.safetensors": None})["out"] >= 2
    pairs = folder / "reparametrized" / "out"
    again = folder / "again"
    again.mkdir()
    assert compare(pairs, again, recipe, {"out": None, "o.safetensors": None, "n": 99})["out"] >= 2


def test_tied_tensors_count_as_often_as_they_are_written(tmp_path):
    tied = torch.nn.Parameter(torch.randn(40, 30))
    state = {"a.weight": tied, "n": torch.tensor(3), "b.weight": tied, "c.weight": torch.ones(9)}
    torch.save(state, tmp_path / "in.pt")
    outs = {"one.safetensors": None, "one.pt": None, "split": 3000}
    compared = compare(tmp_path / "in.pt", tmp_path, Recipe(steps=[HALF]), outs)
    assert compared == dict.fromkeys(outs, 3)


@pytest.mark.parametrize("legacy", [False, True])
def test_contents_outside_the_state_dict_of_a_torch_file_count(tmp_path, legacy):
    moments = {i: {"exp_avg": torch.randn(300, 30)} for i in range(3)}
    training = {
        "model": {"a.weight": torch.randn(100, 30), "b.weight": torch.randn(50)},
        "optimizer": {"state": moments, "param_groups": [{"lr": 0.1}]},
    }
    torch.save(training, tmp_path / "in.pt", _use_new_zipfile_serialization=not legacy)
    with applied(tmp_path / "in.pt", Recipe(steps=[HALF])) as resolution:
        told = sizes(resolution, tmp_path / "out.pt")["finalized"]
        export(resolution, tmp_path / "out.pt")
        # The optimizer's state is most of it; then the file can be fingerprinted after, as before.
        assert resolution.checkpoint.fingerprint(Monitor()).startswith("sha256:")
    assert told.nbytes == size_of(tmp_path / "out.pt")


def test_a_form_that_cannot_be_written_has_an_error_and_the_others_sizes(tmp_path):
    torch.save({"a.weight": torch.ones(3), "s": torch.eye(2).to_sparse()}, tmp_path / "in.pt")
    with applied(tmp_path / "in.pt", Recipe()) as resolution:
        told = sizes(resolution, tmp_path / "out.safetensors")
        assert isinstance(told["finalized"], CheckpointError)
        assert "'s' (sparse)" in str(told["finalized"])
        assert isinstance(told["masks"], RecipeError)
        assert isinstance(sizes(resolution, tmp_path / "out.pt")["finalized"], Size)


def shares_of(tmp_path, state, *some_steps) -> dict[str, float]:
    save_file(state, tmp_path / "in.safetensors")
    with applied(tmp_path / "in.safetensors", Recipe(steps=some_steps)) as resolution:
        told = sizes(resolution, tmp_path / "out.safetensors")
    return {form: told[form].share for form in FORMS}


def test_zeros_compress_to_almost_nothing(tmp_path):
    everything = {"method": "l1_unstructured", "targets": ["w"], "amount": 1.0}
    told = shares_of(tmp_path, {"w": torch.randn(1000, 1000)}, everything)
    assert told["finalized"] < 0.011
    assert told["reparametrized"] == pytest.approx(0.463, abs=0.02)  # dense float32: 0.926


@pytest.mark.parametrize("form", FORMS)
def test_the_size_of_a_compressed_file_is_forecast_within_5_percent(tmp_path, form):
    state = {f"layers.{i}.weight": torch.randn(200, 300) * (i + 1) for i in range(6)}
    torch.save({key: tensor.bfloat16() for key, tensor in state.items()}, tmp_path / "in.pt")
    with applied(tmp_path / "in.pt", Recipe(steps=[HALF])) as resolution:
        told = sizes(resolution, tmp_path / "out.pt")[form]
        export(resolution, tmp_path / "out.pt", form, compressed=True)
    assert told.compressed == pytest.approx(size_of(tmp_path / "out.pt"), rel=0.05)
    assert told.compressed < 0.7 * told.nbytes


def test_shards_are_not_compressed(tmp_path):
    torch.save({"a.weight": torch.ones(3)}, tmp_path / "in.pt")
    with pytest.raises(CheckpointError, match="shards cannot be compressed"):
        exported(tmp_path / "in.pt", tmp_path / "out", Recipe(), shard_size=100, compressed=True)
    assert not (tmp_path / "out").exists()


def test_noise_is_estimated_as_incompressible(tmp_path):
    noise = torch.randint(0, 256, (4_000_000,), dtype=torch.uint8)
    off = {**HALF, "targets": ["tiny"], "amount": 0}
    state = {"noise": noise, "tiny": torch.ones(1)}
    assert 1 <= shares_of(tmp_path, state, off)["finalized"] < 1.01


def test_every_span_of_a_form_tensor_equals_the_slice_of_the_whole(tmp_path):
    save_file({"a.weight": torch.randn(40, 30).bfloat16()}, tmp_path / "in.safetensors")
    with applied(tmp_path / "in.safetensors", Recipe(steps=[HALF])) as resolution:
        for form in FORMS:
            for part in parts(resolution, form):
                whole = torch.cat(list(part.chunks()))
                spans = [(0, 0), (3, 700), (1199, part.units)]
                for (start, stop), piece in zip(spans, part.values(spans), strict=True):
                    assert torch.equal(piece, whole[start:stop])


def test_computing_sizes_can_be_cancelled_and_reports_progress(tmp_path):
    save_file({"w": torch.randn(1_000_000)}, tmp_path / "in.safetensors")
    stop, seen = threading.Event(), []

    def progress(done, total):
        seen.append((done, total))
        if done > 0:
            stop.set()

    with applied(tmp_path / "in.safetensors", Recipe()) as resolution, pytest.raises(Cancelled):
        sizes(resolution, tmp_path / "out.safetensors", progress=progress, cancel=stop)
    assert len([done for done, _ in seen if done]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.safetensors"]
