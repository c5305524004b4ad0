"""Steps on weights that are not (out, in): they prune what they prune of the same weights in it."""

import json

import numpy as np
import pytest
import torch
from applied import applied
from safetensors.torch import save_file
from torch import nn

import prune_gui
from prune_gui import parallel
from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import USUAL, WeightLayout
from prune_gui.recipe import Recipe, resolve
from prune_gui.recipe.auxiliary_files import RECORDING_KEY
from prune_gui.recipe.script import python_script
from prune_gui.statistics.layer_statistics import channels_of, compute, empty_statistics
from prune_gui.statistics.pattern_scan import PatternScan

BLOCK = {"attn.c_attn": (24, 8), "attn.c_proj": (8, 8), "mlp.c_fc": (32, 8), "mlp.c_proj": (8, 32)}
# By kind, the shapes of weights of torch, by name, and the dimensions of the weights in the file.
KINDS = {
    "gpt2": ({f"transformer.h.0.{name}": shape for name, shape in BLOCK.items()}, (1, 0)),
    "dense": ({"params.Dense_0": (8, 12), "params.Dense_1": (4, 8)}, (1, 0)),
    "conv": ({"params.Conv_0": (8, 4, 3, 2), "params.Conv_1": (6, 8, 1, 1)}, (2, 3, 1, 0)),
    "transposed": (
        {"up.0": (6, 4, 3, 2), "up.1": (4, 8, 2, 2), "up.2": (8, 8, 2, 2)},
        (1, 0, 2, 3),
    ),
}
STEPS = [
    {"method": "l1_unstructured", "scope": "row", "amount": 0.4},
    {"method": "l1_unstructured", "scope": "row", "amount": 0.4, "importance": "scores"},
    {"method": "l1_unstructured", "scope": "global", "amount": 0.4, "importance": "scores"},
    {"method": "l1_unstructured", "scope": "row", "amount": 3, "score": "ria"},
    {"method": "l1_unstructured", "scope": "local", "amount": 0.4, "score": "balanced"},
    {"method": "balanced", "over": "row", "row_power": 0.9, "column_power": 0.2},
    {"method": "balanced", "over": "lamp", "row_power": 0.0, "column_power": 1.0},
    {"method": "ln_structured", "amount": 2, "n": 1},
    {"method": "ln_structured", "amount": 0.4, "dim": "input", "scope": "global"},
    {"method": "channels", "channels": [1, 3]},
    {"method": "channels", "channels": [0, 2], "dim": "input"},
    {"method": "n_m", "flatten": False},
    {"method": "n_m", "n": 1, "m": 2, "dim": "output", "flatten": False},
]
BLOCK_STEP = {"method": "block", "height": 2, "width": 4, "n": 1, "amount": 3}


def written(folder, kind, *, is_usual):
    """Write the weights of a kind, or of the same layers of torch; return the file."""
    shapes, dims = KINDS[kind]
    generator = torch.Generator().manual_seed(0)
    leaf = "weight" if is_usual or kind in ("gpt2", "transposed") else "kernel"
    tensors, scores = {}, {}
    for name, shape in shapes.items():
        weight = torch.randn(shape, generator=generator) ** 3
        bias = torch.zeros(shape[0])
        scores[f"{name}.{leaf}"] = torch.rand(shape[1], generator=generator)
        tensors[f"{name}.{leaf}"] = weight if is_usual else weight.permute(dims).contiguous()
        tensors[f"{name}.bias"] = bias
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    save_file(scores, folder / "scores.safetensors")
    return folder / "model.safetensors"


def masks(path, *steps):
    steps = [{"targets": ["*.weight", "*.kernel"], **step} for step in steps]
    for step in steps:
        if "importance" in step:
            step["importance"] = str(path.parent / "scores.safetensors")
    with prune_gui.open_checkpoint(path) as checkpoint:
        resolution = prune_gui.resolve(prune_gui.Recipe(steps=steps), checkpoint)
        return [resolution.mask(name) for name in resolution.layers], resolution


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: " ".join(map(str, step.values())))
def test_a_step_prunes_the_same_of_a_layer_in_any_layout(tmp_path, kind, step):
    first = {"method": "l1_unstructured", "amount": 0.1}
    for number, steps in enumerate([(step,), (first, step)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        expected, _ = masks(written(folder / "usual", kind, is_usual=True), *steps)
        found, resolution = masks(written(folder / "other", kind, is_usual=False), *steps)
        dims = KINDS[kind][1]
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other.permute(dims))
        assert any(not mask.all() for mask in found)
        assert "(in, out)" in str(resolution.outcomes[-1].limits) or len(dims) > 2


@pytest.mark.parametrize("kind", ["gpt2", "dense"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_blocks_have_the_height_of_output_channels(tmp_path, kind, scope):
    step = {**BLOCK_STEP, "scope": scope}
    expected, _ = masks(written(tmp_path / "usual", kind, is_usual=True), step)
    found, _ = masks(written(tmp_path / "other", kind, is_usual=False), step)
    assert all(torch.equal(one, other.T) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [50, 1 << 20])
def test_dead_output_channels_are_counted_in_any_layout(tmp_path, monkeypatch, kind, chunk):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
    steps = [{"method": "channels", "channels": [0, 2]}, {"method": "l1_unstructured"}]
    counted = []
    for is_usual in (True, False):
        path = written(tmp_path / str(is_usual), kind, is_usual=is_usual)
        with prune_gui.open_checkpoint(path) as checkpoint:
            targets = ["*.weight", "*.kernel"]
            recipe = prune_gui.Recipe(steps=[{"targets": targets, **step} for step in steps])
            statistics = empty_statistics(prune_gui.resolve(recipe, checkpoint))
            measured = compute(statistics, lambda _: True, Monitor())
            counted.append(
                [
                    (channels_of(checkpoint, info), int(row["dead"]), round(float(row["kept"]), 3))
                    for info, row in zip(measured.infos, measured.measures, strict=True)
                ]
            )
    assert counted[0] == counted[1]
    assert max(dead for _, dead, _ in counted[0]) == 2


@pytest.mark.parametrize(
    ("shape", "layout", "output", "says"),
    [
        ((6, 8), WeightLayout(1, 0, "known"), (slice(None), 2), "1 of 8 output channels dead"),
        ((6, 8), WeightLayout(1, 0, "known"), (2,), "1 of 6 input channels dead"),
        (
            (6, 8, 3, 3),
            WeightLayout(1, 0, "known"),
            (slice(None), 2),
            "1 of 8 output channels dead",
        ),
        ((3, 3, 6, 8), WeightLayout(3, 2, "known"), (..., 2), "1 of 8 output channels dead"),
        ((6, 8), USUAL, (2,), "1 of 6 rows dead"),
    ],
)
def test_zeros_in_the_file_are_described_by_the_layout(shape, layout, output, says):
    zero = np.zeros(shape, np.bool_)
    zero[output] = True
    scan = PatternScan(shape, None, layout)
    for start, stop in scan.spans():
        scan.add(scan.look(start, zero.reshape(-1)[start:stop]))
    assert says in scan.found().describe()


def test_a_recording_knows_the_layout_where_the_file_does_not(tmp_path):
    tensors = {"up.weight": torch.randn(6, 4)}
    save_file(tensors, tmp_path / "model.safetensors")
    record = {"statistic": "activations", "shapes": {"up.weight": [6, 4]}, "aliases": {}}
    step = {"method": "l1_unstructured", "scope": "row", "amount": 0.5, "targets": ["*"]}
    step["importance"] = str(tmp_path / "scores.safetensors")
    for transposed, dim in ([], 1), (["up.weight"], 0):
        metadata = {RECORDING_KEY: json.dumps({**record, "transposed": transposed})}
        save_file({"up.weight": tensors["up.weight"].abs()}, step["importance"], metadata)
        with prune_gui.open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
            resolution = prune_gui.resolve(prune_gui.Recipe(steps=[step]), checkpoint)
            kept = resolution.mask("up.weight").sum(dim)
        assert len(set(kept.tolist())) == 1
        assert ("recorded" in str(resolution.outcomes[0].limits)) == bool(transposed)


def test_a_script_with_default_dimensions_prunes_the_same(tmp_path):
    path = written(tmp_path / "other", "gpt2", is_usual=False)
    step = {"method": "ln_structured", "amount": 0.5, "targets": ["*.weight"]}
    with prune_gui.open_checkpoint(path) as checkpoint:
        resolution = prune_gui.resolve(prune_gui.Recipe(steps=[step]), checkpoint)
        assert "as_prune_gui_does(1" in python_script(resolution, tmp_path / "out.safetensors")
        step["dim"] = 1
        resolution = prune_gui.resolve(prune_gui.Recipe(steps=[step]), checkpoint)
        assert "Ln.apply" in python_script(resolution, tmp_path / "out.safetensors")


TEXT = 'steps: [{{method: {}, targets: ["*.weight"], amount: 0.5, importance: optimizer}}]'
RECIPE = Recipe.from_yaml(TEXT.format("l1_unstructured"))


@pytest.fixture(params=["named", "in order"])
def training(request):
    """Return what a training script saves after three steps of Adam."""
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)).bfloat16()
    parameters = model.named_parameters() if request.param == "named" else model.parameters()
    optimizer = torch.optim.AdamW(parameters)
    for _ in range(3):
        model(torch.randn(2, 4).bfloat16()).square().sum().backward()
        optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


@pytest.mark.parametrize("method", ["l1_unstructured", "lamp"])
def test_the_weights_of_the_lowest_v_times_w_squared_are_pruned(method, training, tmp_path):
    torch.save(training, tmp_path / "training.ckpt")
    with applied(tmp_path / "training.ckpt", Recipe.from_yaml(TEXT.format(method))) as resolution:
        for number, name in ((0, "0.weight"), (2, "1.weight")):
            v = training["optimizer"]["state"][number]["exp_avg_sq"].float()
            scores = (v * training["model"][name].float().square()).flatten()
            pruned, total = resolution.counts[name]
            assert 0 < pruned <= total
            lowest = scores.argsort(stable=True)[:pruned]
            mask = torch.ones(total, dtype=torch.bool).index_fill(0, lowest, False)
            assert torch.equal(resolution.mask(name).flatten(), mask)


def test_the_recipe_keeps_the_word_in_any_folder(tmp_path):
    recipe = Recipe.from_yaml(RECIPE.to_yaml(), folder=tmp_path)
    assert recipe == RECIPE
    assert "importance: optimizer\n" in recipe.to_yaml()
    assert recipe.steps[0].method.files == {}
    assert "optimizer" in recipe.steps[0].method.options_text()


@pytest.mark.parametrize("save", [save_file, torch.save])
def test_a_checkpoint_without_an_optimizer_is_an_error(save, tmp_path):
    path = tmp_path / ("a.safetensors" if save is save_file else "a.pt")
    save({"0.weight": torch.randn(4, 4)}, path)
    with (
        open_checkpoint(path) as checkpoint,
        pytest.raises(RecipeError, match=r"a\.\w+ has no exp_avg_sq of 0\.weight"),
    ):
        resolve(RECIPE, checkpoint)


def without_squares(training):
    for values in training["optimizer"]["state"].values():
        values["momentum_buffer"] = values.pop("exp_avg_sq")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_squares, "has no exp_avg_sq"),
        (lambda it: it["model"].pop("1.bias"), "cannot be ranked by its optimizer"),
    ],
)
def test_an_optimizer_that_does_not_fit_is_an_error(training, tmp_path, change, message):
    change(training)
    torch.save(training, tmp_path / "a.ckpt")
    with (
        open_checkpoint(tmp_path / "a.ckpt") as checkpoint,
        pytest.raises(RecipeError, match=message),
    ):
        resolve(RECIPE, checkpoint)


def test_a_closed_checkpoint_releases_the_state(training, tmp_path):
    import weakref

    from prune_gui.checkpoint.torch.state_dict_search import moments

    torch.save(training, tmp_path / "a.ckpt")
    with applied(tmp_path / "a.ckpt", RECIPE) as resolution:
        resolution.mask("0.weight")
        state = weakref.ref(moments(resolution.checkpoint)["0.weight"][1][1])
        assert state() is not None
    assert state() is None
