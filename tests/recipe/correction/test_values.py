"""Corrections of recipes: compared with least squares on the inputs, in every layer and dtype."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from applied import applied, exported
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

import prune_gui
from prune_gui.errors import PruneGuiError
from prune_gui.recipe import Recipe
from prune_gui.recipe.correction.corrected_values import correction_beside
from prune_gui.recipe.script import python_script

HALF = {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5}


class RecordedNetwork:
    """A network as a file, with recordings of its inputs beside it."""

    def __init__(self, folder: Path, network: nn.Module, inputs: torch.Tensor) -> None:
        self.folder, self.network, self.inputs = folder, network.eval(), inputs
        self.path = folder / "dense.safetensors"
        save_file(network.state_dict(), self.path)
        with torch.no_grad(), prune_gui.record(network, "second_moments", "means") as recording:
            network(inputs)
        recording.save(folder)

    def step(self, method: str, **fields: object) -> dict[str, object]:
        """Return a step; those that correct read the recordings."""
        files = {"refit": "second_moments", "bias_correction": "means"}
        if method in files:
            name = "moments" if method == "refit" else "means"
            fields = {name: str(self.folder / f"{files[method]}.safetensors"), **fields}
        return {"method": method, "targets": ["*"], **fields}

    def finalized(self, *steps: dict[str, object], form: str = "finalized"):
        """Return the tensors of a form, and the notes on each step."""
        out = self.folder / "out.safetensors"
        with applied(self.path, Recipe(steps=steps)) as resolution:
            prune_gui.export(resolution, out, form=form, overwrite=True)
            notes = [dict(outcome.notes) for outcome in resolution.outcomes]
        return load_file(out), notes


@pytest.fixture
def recorded_network(tmp_path) -> Callable[[nn.Module, torch.Tensor], RecordedNetwork]:
    return lambda network, inputs: RecordedNetwork(tmp_path, network, inputs)


@pytest.fixture
def linear(recorded_network) -> RecordedNetwork:
    """Return a recorded linear layer with a bias, whose inputs have a mean."""
    return recorded_network(nn.Sequential(nn.Linear(12, 6)), torch.randn(200, 12) + 1)


def solved(inputs: torch.Tensor, weight: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return weight (rows, columns) with each row solved for inputs (samples, columns)."""
    result = torch.zeros_like(weight, dtype=torch.float64)
    for i, mask in enumerate(kept):
        outputs = inputs.double() @ weight[i].double()
        solution = np.linalg.lstsq(inputs.double()[:, mask].numpy(), outputs.numpy(), rcond=None)
        result[i, mask] = torch.from_numpy(solution[0])
    return result


@pytest.mark.parametrize("tokens", [6, 12], ids=["square", "oblong"])
def test_a_linear_layer_with_the_weight_of_an_embedding_is_refitted(tokens, tmp_path):
    embedding, head = nn.Embedding(tokens, 6), nn.Linear(6, tokens, bias=False)
    head.weight = embedding.weight
    network = nn.Sequential(embedding, nn.Linear(6, 6), nn.Tanh(), head)
    indices = torch.arange(tokens).repeat(4)
    with torch.no_grad(), prune_gui.record(network, "second_moments") as recording:
        network(indices)
        inputs = network[:-1](indices)
    [moments] = recording.save(tmp_path / "moments.safetensors")
    torch.save({"0.weight": head.weight.detach()}, tmp_path / "tied.pt")
    refit = {"method": "refit", "targets": ["*"], "moments": str(moments), "damping": 1e-6}
    recipe = Recipe(steps=[HALF, refit])
    kept = exported(tmp_path / "tied.pt", tmp_path / "out.pt", recipe)["0.weight"]
    found = torch.load(tmp_path / "out.pt")["0.weight"]
    dense = head.weight.detach()
    errors = [(inputs @ (one - dense).T).square().sum() for one in (dense * kept, found)]
    assert errors[1] < 0.8 * errors[0]
    assert (found[~kept] == 0).all()


def test_a_linear_layer_is_refitted_and_zeros_stay_positive_zero(linear):
    (before, _), (after, notes) = (
        linear.finalized(*steps) for steps in ([HALF], [HALF, linear.step("refit", damping=0.0)])
    )
    weight = linear.network[0].weight.detach()
    expected = solved(linear.inputs, weight, before["0.weight"] != 0)
    torch.testing.assert_close(after["0.weight"].double(), expected, rtol=1e-4, atol=1e-5)
    pruned = before["0.weight"] == 0
    assert (after["0.weight"].view(torch.int32)[pruned] == 0).all()
    torch.testing.assert_close(after["0.bias"], before["0.bias"], rtol=0, atol=0)
    assert notes == [{}, {}]


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_refitted(recorded_network, groups):
    layer = nn.Conv2d(4, 6, 3, groups=groups, padding=1, stride=2)
    network = recorded_network(nn.Sequential(layer), torch.randn(20, 4, 7, 7))
    before, _ = network.finalized(HALF)
    after, _ = network.finalized(HALF, network.step("refit", damping=0.0))
    patches = functional.unfold(network.inputs, 3, padding=1, stride=2).mT.flatten(0, 1)
    rows = 6 // groups
    for group, inputs in enumerate(patches.chunk(groups, dim=1)):
        own = slice(group * rows, (group + 1) * rows)
        kept = before["0.weight"][own].flatten(1) != 0
        expected = solved(inputs, layer.weight.detach()[own].flatten(1), kept)
        found = after["0.weight"][own].flatten(1).double()
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_the_transposed_weight_of_gpt2_is_refitted_although_it_is_square(recorded_network):
    class Conv1D(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8))
            self.bias = nn.Parameter(torch.randn(8))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs @ self.weight + self.bias

    Conv1D.__module__ = "transformers.pytorch_utils"
    layer = Conv1D()
    network = recorded_network(nn.Sequential(layer), torch.randn(50, 8) + 1)
    before, _ = network.finalized(HALF)
    steps = network.step("refit", damping=0.0), network.step("bias_correction")
    after, _ = network.finalized(HALF, *steps)
    expected = solved(network.inputs, layer.weight.detach().T, before["0.weight"].T != 0).T
    torch.testing.assert_close(after["0.weight"].double(), expected, rtol=1e-3, atol=1e-4)
    means = network.inputs.mean(0)
    shift = means @ (layer.weight.detach() - after["0.weight"])
    torch.testing.assert_close(after["0.bias"], layer.bias.detach() + shift)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_values_are_rounded_once_to_the_dtype_of_the_file(linear, dtype):
    weight = linear.network[0].weight.detach().to(dtype)
    save_file({"0.weight": weight}, linear.path)
    before, _ = linear.finalized(HALF)
    after, _ = linear.finalized(HALF, linear.step("refit", damping=0.0))
    expected = solved(linear.inputs, weight, before["0.weight"] != 0)
    spacing = torch.finfo(dtype if dtype.itemsize == 2 else torch.float32).eps
    torch.testing.assert_close(after["0.weight"].double(), expected, rtol=spacing, atol=1e-4)
    assert after["0.weight"].dtype == dtype


def test_corrections_follow_from_the_masks_of_all_steps_in_any_order(linear):
    refit = linear.step("refit")
    after, _ = linear.finalized(HALF, refit)
    before, _ = linear.finalized(refit, HALF)
    assert torch.equal(after["0.weight"], before["0.weight"])


def test_a_disabled_correction_leaves_the_bytes_of_the_file(linear):
    pruned, _ = linear.finalized(HALF)
    disabled, _ = linear.finalized(HALF, linear.step("refit", enabled=False))
    alone, _ = linear.finalized(linear.step("refit"))
    assert torch.equal(disabled["0.weight"], pruned["0.weight"])
    assert torch.equal(alone["0.weight"], linear.network[0].weight)


def test_a_bias_correction_restores_the_mean_outputs(linear):
    after, notes = linear.finalized(HALF, linear.step("bias_correction"))
    pruned = functional.linear(linear.inputs, after["0.weight"], after["0.bias"])
    torch.testing.assert_close(pruned.mean(0), linear.network(linear.inputs).mean(0))
    assert notes == [{}, {}]


def test_a_bias_correction_after_a_refit_corrects_what_that_leaves(linear):
    steps = HALF, linear.step("refit"), linear.step("bias_correction")
    after, _ = linear.finalized(*steps)
    pruned = functional.linear(linear.inputs, after["0.weight"], after["0.bias"])
    torch.testing.assert_close(pruned.mean(0), linear.network(linear.inputs).mean(0))
    twice, _ = linear.finalized(*steps, linear.step("bias_correction"))
    assert torch.equal(twice["0.bias"], after["0.bias"])


def test_a_bias_correction_of_a_convolution_with_groups(recorded_network):
    layer = nn.Conv1d(4, 6, 3, groups=2, padding=1, padding_mode="circular")
    network = recorded_network(nn.Sequential(layer), torch.randn(20, 4, 9) + 1)
    after, _ = network.finalized(HALF, network.step("bias_correction"))
    dense = network.network(network.inputs).mean((0, 2))
    layer.load_state_dict({"weight": after["0.weight"], "bias": after["0.bias"]})
    torch.testing.assert_close(network.network(network.inputs).mean((0, 2)), dense)


def test_layers_without_bias_are_named(linear):
    save_file({"0.weight": linear.network[0].weight.detach()}, linear.path)
    _, notes = linear.finalized(HALF, linear.step("bias_correction"))
    assert notes[1] == {"0.weight": "not corrected: the layer has no bias in the file"}


def test_batch_norm_statistics_are_those_of_update_bn(recorded_network, tmp_path):
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4))
    batches = [torch.randn(5, 2, 6, 6) * i for i in range(1, 4)]
    network = recorded_network(model, batches[0])
    model.train()
    with prune_gui.record(model, "batch_norm") as recording:
        for batch in batches:
            model(batch)
    (path,) = recording.save(tmp_path / "batch_norm.safetensors")
    torch.optim.swa_utils.update_bn(batches, model)
    step = network.step("batch_norm_statistics", statistics=str(path), targets=["*running*"])
    after, _ = network.finalized(step)
    for name in ("1.running_mean", "1.running_var", "3.running_mean", "3.running_var"):
        torch.testing.assert_close(after[name], model.state_dict()[name])


def test_the_checksum_of_the_recording_is_in_the_metadata(linear):
    step = linear.step("refit")
    linear.finalized(HALF, step)
    with safe_open(linear.folder / "out.safetensors", "pt") as file:
        recordings = json.loads(file.metadata()["prune_gui.recordings"])
    content = (linear.folder / "second_moments.safetensors").read_bytes()
    assert recordings == {step["moments"]: hashlib.sha256(content).hexdigest()}
    assert prune_gui.recipe.verify(linear.folder / "out.safetensors").problems == []


@pytest.mark.parametrize("form", ["reparametrized", "masks"])
def test_forms_without_room_for_corrections_name_those_that_have(linear, form):
    with pytest.raises(PruneGuiError, match="Step 2 corrects kept weights, which only the final"):
        linear.finalized(HALF, linear.step("refit"), form=form)


def test_values_are_computed_once_while_the_masks_are_the_same(linear):
    with applied(linear.path, Recipe(steps=[HALF, linear.step("refit")])) as resolution:
        checkpoint = resolution.checkpoint
        assert resolution.is_corrected("0.weight")
        assert not resolution.is_corrected("0.bias")
        assert resolution.values("0.weight") is resolution.values("0.weight")
        assert torch.equal(resolution.values("0.bias"), checkpoint.read("0.bias"))
        pruned = ~resolution.mask("0.weight")
        dense = checkpoint.read("0.weight")
        assert torch.equal(resolution.values("0.weight")[pruned], dense[pruned])
        assert (resolution.values("0.weight") != dense).any()


@pytest.mark.parametrize(
    ("weights", "fields", "message"),
    [
        ((6, 12), {"moments": "means"}, r"means.safetensors is not a recording of second"),
        ((6, 5), {}, r"second_moments.* for another model: there 0.wei"),
        (None, {}, "has nothing about the targets"),
    ],
)
def test_recordings_of_something_else_are_refused(linear, weights, fields, message):
    name, shape = ("0.weight", weights) if weights else ("other.weight", (6, 12))
    save_file({name: torch.randn(shape)}, linear.path)
    fields = {key: str(linear.folder / f"{stem}.safetensors") for key, stem in fields.items()}
    with pytest.raises(PruneGuiError, match=message):
        linear.finalized(HALF, linear.step("refit", **fields))


def test_recordings_that_are_not_finite_are_refused(recorded_network):
    network = recorded_network(nn.Sequential(nn.Linear(3, 2)), torch.full((4, 3), torch.inf))
    with pytest.raises(PruneGuiError, match=r"second_moments.*0.weight has values that are no"):
        network.finalized(HALF, network.step("refit"))


def test_a_script_with_torch_is_refused(linear, tmp_path):
    with (
        applied(linear.path, Recipe(steps=[linear.step("refit")])) as resolution,
        pytest.raises(PruneGuiError, match="Step 1 corrects kept weights"),
    ):
        python_script(resolution, tmp_path / "out.safetensors")


def test_the_compact_form_computes_what_the_finalized_form_does(recorded_network):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    network = recorded_network(model, torch.randn(200, 8))
    units = {"method": "coupled", "space": "channels", "targets": ["*"], "amount": 0.5}
    steps = units, HALF, network.step("refit"), network.step("bias_correction")
    finalized, _ = network.finalized(*steps)
    compact, _ = network.finalized(*steps, form="compact")
    small = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    small.load_state_dict(compact)
    model.load_state_dict(finalized)
    torch.testing.assert_close(small(network.inputs), model(network.inputs))


def save_recording(model, statistic, folder):
    folder.mkdir(exist_ok=True)
    with prune_gui.record(model, statistic) as recording:
        model(torch.randn(5, 6))
    return recording.save(folder)


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


@pytest.fixture
def checkpoint(model, on_disk):
    return on_disk(model.state_dict())


@pytest.mark.parametrize("folder", [".", "statistics"])
def test_second_moments_beside_a_checkpoint_make_a_refit_possible(
    model, checkpoint, tmp_path, folder
):
    [path] = save_recording(model, "second_moments", tmp_path / folder)
    step = correction_beside(checkpoint)
    assert (step.method.name, step.method.moments) == ("refit", str(path))
    prune_gui.resolve(Recipe(steps=(step,)), checkpoint)


def test_refit_precedes_bias_correction(model, checkpoint, tmp_path):
    save_recording(model, "means", tmp_path)
    assert correction_beside(checkpoint).method.name == "bias_correction"
    save_recording(model, "second_moments", tmp_path / "b")
    assert correction_beside(checkpoint).method.name == "refit"


def test_recordings_of_other_models_and_other_files_are_passed_over(checkpoint, tmp_path):
    assert correction_beside(checkpoint) is None
    save_recording(nn.Sequential(nn.Linear(6, 5)), "second_moments", tmp_path / "other")
    (tmp_path / "second_moments.safetensors").write_bytes(b"broken")
    (tmp_path / "x" / "second_moments.safetensors").mkdir(parents=True)
    save_file({"0.weight": torch.zeros(6, 6)}, tmp_path / "means.safetensors")
    assert correction_beside(checkpoint) is None
