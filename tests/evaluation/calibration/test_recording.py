"""Recordings: their files, the parameters that these match, and the errors."""

from __future__ import annotations

import json

import pytest
import torch
from recorded_networks import TiedNetwork
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import prune_gui
from prune_gui.evaluation.calibration import recording
from prune_gui.evaluation.calibration.layer_inputs import second_moments
from prune_gui.evaluation.calibration.statistics import DeviceSums

RECIPE = """
steps:
  - {{method: l1_unstructured, targets: ["{targets}"], amount: 0.5, importance: {file}}}
"""


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def save_recording(model, path, *statistics):
    with prune_gui.record(model, *statistics) as recording:
        model(torch.randn(3, 4)).sum().backward()
    return recording.save(path)


def masks(state, scores, folder, targets="*.weight"):
    """Return the masks of the parameters that a step prunes by a file of scores."""
    file = folder / "model.pt"
    torch.save(state, file)
    recipe = prune_gui.Recipe.from_yaml(RECIPE.format(targets=targets, file=scores), folder=folder)
    with prune_gui.open_checkpoint(file) as checkpoint:
        resolution = prune_gui.resolve(recipe, checkpoint)
        counts = resolution.counts.items()
        return {name: resolution.mask(name) for name, (pruned, _) in counts if pruned}


def test_each_statistic_becomes_a_file_in_the_folder(tmp_path):
    paths = save_recording(network(), tmp_path / "a" / "b", "activations", "means", "obd", "taylor")
    assert [path.name for path in paths] == [
        "activations.safetensors", "means.safetensors", "obd.safetensors", "taylor.safetensors",
    ]  # fmt: skip
    assert sorted((tmp_path / "a" / "b").iterdir()) == sorted(paths)
    shapes = {name: tuple(tensor.shape) for name, tensor in load_file(paths[2]).items()}
    assert shapes == {"0.weight": (8, 4), "0.bias": (8,), "2.weight": (2, 8), "2.bias": (2,)}


def test_the_metadata_tell_what_was_recorded_from_what(tmp_path):
    (path,) = save_recording(network(), tmp_path / "file.safetensors", "activations")
    with safe_open(path, "pt") as file:
        record = json.loads(file.metadata()["prune_gui.recording"])
    assert record["statistic"] == "activations"
    assert record["vectors"] == 3
    assert record["model"] == "torch.nn.modules.container.Sequential"
    assert record["shapes"] == {"0.weight": [8, 4], "2.weight": [2, 8]}
    assert record["versions"]["torch"] == torch.__version__


def test_activations_with_scope_row_prune_as_wanda(on_disk, tmp_path):
    model, x = network(), torch.randn(5, 4)
    with prune_gui.record(model, "activations") as recording:
        model(x)
    (scores,) = recording.save(tmp_path / "scores.safetensors")
    weight = model[0].weight.detach()
    ranks = (weight.abs() * x.norm(dim=0)).argsort(1).argsort(1)
    recipe = prune_gui.Recipe.from_yaml(
        'steps: [{method: l1_unstructured, targets: ["0.weight"], amount: 0.5, scope: row,'
        f" importance: {scores}}}]"
    )
    mask = prune_gui.resolve(recipe, on_disk(model.state_dict(), "model.pt")).mask("0.weight")
    assert torch.equal(mask, ranks >= 2)


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.", "model._orig_mod."])
@pytest.mark.parametrize("statistic", ["activations", "fisher"])
def test_scores_match_checkpoints_of_wrapped_models(prefix, statistic, tmp_path):
    model = network()
    (scores,) = save_recording(model, tmp_path / "scores.safetensors", statistic)
    state = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    found = masks(state, scores, tmp_path)
    plain = masks(model.state_dict(), scores, tmp_path)
    assert [*found] == [prefix + name for name in plain]
    assert all(map(torch.equal, found.values(), plain.values()))
    wrapper = nn.Module()
    wrapper.model, wrapper.forward = model, model.forward
    save_recording(nn.DataParallel(wrapper), tmp_path / "wrapped.safetensors", statistic)
    assert "model.0.weight" in load_file(tmp_path / "wrapped.safetensors")
    assert [*masks(state, tmp_path / "wrapped.safetensors", tmp_path)] == [*found]


@pytest.mark.parametrize("kept", ["embed.weight", "head.weight"])
def test_a_tied_weight_matches_a_checkpoint_with_either_of_its_names(kept, tmp_path):
    model = TiedNetwork()
    with prune_gui.record(model, "fisher") as recording:
        model(torch.tensor([1, 2, 3])).logsumexp(-1).sum().backward()
    (scores,) = recording.save(tmp_path / "scores.safetensors")
    mask = masks({kept: model.embed.weight.detach()}, scores, tmp_path)[kept]
    order = load_file(scores)["embed.weight"].flatten().argsort(stable=True)
    assert set(mask.flatten().logical_not().nonzero().flatten().tolist()) == set(
        order[:14].tolist()
    )


def test_scores_that_do_not_fit_are_an_error_that_names_the_parameter(tmp_path):
    (scores,) = save_recording(network(), tmp_path / "scores.safetensors", "activations")
    other = {"0.weight": torch.randn(9, 4)}  # with as many columns
    with pytest.raises(prune_gui.PruneGuiError) as caught:
        masks(other, scores, tmp_path)
    assert "0.weight has shape [8, 4], but the parameter has [9, 4]" in str(caught.value)
    assert str(scores) in str(caught.value)
    with pytest.raises(prune_gui.PruneGuiError, match="no tensor named"):
        masks(network().state_dict(), scores, tmp_path, targets="*")  # biases have no inputs
    (means,) = save_recording(network(), tmp_path / "means.safetensors", "means")
    with pytest.raises(prune_gui.PruneGuiError, match="holds means of layer inputs"):
        masks(network().state_dict(), means, tmp_path)


@pytest.mark.parametrize(
    "record",
    ["", "[]", '{"statistic": 1, "shapes": {"0.weight": 2}}', '{"shapes": {}, "aliases": 3}'],
)
def test_malformed_metadata_leave_a_plain_file_of_scores(record, tmp_path):
    state = network().state_dict()
    scores = tmp_path / "scores.safetensors"
    save_file({"0.weight": torch.rand(8, 4)}, scores, {"prune_gui.recording": record})
    assert masks(state, scores, tmp_path, targets="0.weight")["0.weight"].sum() == 16


@pytest.mark.parametrize(
    ("model", "statistics", "message"),
    [
        (network(), (), "Name at least one statistic"),
        (network(), ("wanda",), "no statistic 'wanda'.*activations, ria"),
        (network().requires_grad_(False), ("activations", "taylor"), "so that taylor cannot"),
        (nn.LazyLinear(3), ("activations",), "Run it once before"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_once(model, statistics, message):
    with (
        pytest.raises(prune_gui.PruneGuiError, match=message),
        prune_gui.record(model, *statistics),
    ):
        pass


@pytest.mark.parametrize(
    ("path", "statistics", "message"),
    [
        ("one.safetensors", ("activations", "obd"), "Name a folder"),
        ("file/out", ("activations",), "Save to another folder"),
    ],
)
def test_a_path_that_does_not_fit_is_an_error(path, statistics, message, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(prune_gui.PruneGuiError, match=message):
        save_recording(network(), tmp_path / path, *statistics)


@pytest.mark.parametrize(
    ("statistic", "message"), [("activations", "Run the model"), ("obd", "Call backward")]
)
def test_an_empty_recording_is_not_written(statistic, message, tmp_path):
    with prune_gui.record(network(), statistic) as recording:
        pass
    with pytest.raises(prune_gui.PruneGuiError, match=message):
        recording.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_only_if_asked(tmp_path):
    path = tmp_path / "scores.safetensors"
    model = network()
    with prune_gui.record(model, "activations") as recording:
        model(torch.randn(3, 4))
    recording.save(path)
    before = path.read_bytes()
    with pytest.raises(prune_gui.PruneGuiError, match=r"scores\.safetensors"):
        recording.save(path)
    assert path.read_bytes() == before
    recording.save(path, overwrite=True)


def test_a_checkpoint_is_never_replaced_by_statistics(tmp_path):
    path = tmp_path / "model.safetensors"
    model = network()
    save_file(dict(model.state_dict()), path)
    before = path.read_bytes()
    with prune_gui.record(model, "activations") as recording:
        model(torch.randn(3, 4))
    with pytest.raises(prune_gui.PruneGuiError, match="has no recorded statistics"):
        recording.save(path, overwrite=True)
    assert path.read_bytes() == before


def test_weights_without_values_are_an_error_only_where_they_count(tmp_path):
    layer, loaded = nn.Linear(4, 4, device="meta"), nn.Linear(4, 4)
    with prune_gui.record(layer, "activations", "ria") as recording:
        layer._parameters.update(loaded._parameters)  # as offloading does while a layer runs
        layer(torch.randn(2, 4))
    with pytest.raises(prune_gui.PruneGuiError, match="device meta"):
        recording.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["activations.safetensors"]


def test_sums_of_several_devices_are_added_up():
    class OnGPU(torch.Tensor):
        device = torch.device("cuda", 1)

    sums = DeviceSums()
    for values in (torch.ones(2), torch.full((2,), 5.0).as_subclass(OnGPU), torch.ones(2)):
        sums.add("weight", values, 3)
    assert sums.total("weight").tolist() == [7.0, 7.0]
    assert sums.counts["weight"] == 9


def test_a_full_device_leaves_second_moments_to_the_processor(monkeypatch, tmp_path):
    model, inputs = network(), torch.randn(9, 4)
    full = [True, False, False, False]  # the first call finds no memory

    def moments(module, values):
        if full.pop(0):
            raise torch.OutOfMemoryError
        return second_moments(module, values)

    monkeypatch.setattr(recording, "second_moments", moments)
    with prune_gui.record(model, "second_moments", device="cpu") as recorded:
        model(inputs)
    [path] = recorded.save(tmp_path)
    torch.testing.assert_close(load_file(path)["0.weight"], inputs.T @ inputs)
