"""`prune-gui compact` and `prune-gui apply --form compact`."""

import json

import pytest
import torch
from command_line import prune_gui
from safetensors.torch import load_file, save_file

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 5,
}


@pytest.fixture
def llama(tmp_path):
    """Save a small Llama of which 4 of 12 neurons are zero in each layer."""
    state = {"model.embed_tokens.weight": torch.randn(5, 8), "model.norm.weight": torch.ones(8)}
    for path in ("model.layers.0", "model.layers.1"):
        for name in ("q", "k", "v", "o"):
            state[f"{path}.self_attn.{name}_proj.weight"] = torch.randn(8, 8)
        for name in ("gate", "up"):
            state[f"{path}.mlp.{name}_proj.weight"] = torch.randn(12, 8)
            state[f"{path}.mlp.{name}_proj.weight"][2:6] = 0
        state[f"{path}.mlp.down_proj.weight"] = torch.randn(8, 12)
        state[f"{path}.mlp.down_proj.weight"][:, 2:6] = 0
        for name in ("input_layernorm", "post_attention_layernorm"):
            state[f"{path}.{name}.weight"] = torch.ones(8)
    (tmp_path / "llama").mkdir()
    save_file(state, tmp_path / "llama" / "model.safetensors", {"format": "pt"})
    (tmp_path / "llama" / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path / "llama"


def test_a_dry_run_tells_what_is_removed_and_what_loads_the_rest(llama):
    result = prune_gui("compact", llama, "--dry-run")
    assert result.returncode == 0
    lines = [line.split("  ") for line in result.stdout.splitlines()]
    cells = {line[0]: [cell.strip() for cell in line[1:] if cell.strip()] for line in lines}
    assert cells["FFN neurons"] == ["24", "16", "66.7%"]
    assert "config.json: intermediate_size becomes 8" in result.stdout
    assert any(line[0] == "Multiply-adds per token" for line in lines)
    assert "torchvision" not in result.stdout
    assert result.stdout.splitlines()[-1] == "Loading: from_pretrained loads the folder."
    printed = json.loads(prune_gui("compact", llama, "--dry-run", "--json").stdout)
    removed = 2 * 3 * 4 * 8
    assert printed["before"]["parameters"] - printed["after"]["parameters"] == removed
    assert printed["before"]["multiply_adds"] - printed["after"]["multiply_adds"] == removed
    assert printed["image_size"] is None
    assert (printed["config"], printed["loads_with"]) == (
        {"intermediate_size": 8},
        "from_pretrained",
    )
    assert [path.name for path in llama.parent.iterdir()] == ["llama"]


ALEXNET_LAYERS = {
    "features.0": (4, 3, 11, 11),
    "features.3": (5, 4, 5, 5),
    "features.6": (6, 5, 3, 3),
    "features.8": (7, 6, 3, 3),
    "features.10": (8, 7, 3, 3),
    "classifier.1": (9, 8 * 6 * 6),
    "classifier.4": (10, 9),
    "classifier.6": (2, 10),
}


@pytest.mark.parametrize(
    ("config", "size", "outputs"), [(None, 224, (55, 27)), ({"image_size": 127}, 127, (31, 15))]
)
def test_a_dry_run_states_the_work_per_image_and_its_size(tmp_path, config, size, outputs):
    state = {f"{path}.weight": torch.ones(shape) for path, shape in ALEXNET_LAYERS.items()}
    state["features.0.weight"][1] = 0
    state["features.3.weight"][:, 1] = 0
    save_file(state, tmp_path / "model.safetensors")
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config))
    arguments = ("compact", tmp_path / "model.safetensors", "--dry-run")
    printed = json.loads(prune_gui(*arguments, "--json").stdout)
    removed = 3 * 11**2 * outputs[0] ** 2 + 5 * 5**2 * outputs[1] ** 2
    before, after = printed["before"]["multiply_adds"], printed["after"]["multiply_adds"]
    assert before - after == removed
    assert printed["image_size"] == size
    lines = prune_gui(*arguments).stdout
    (row,) = (line for line in lines.splitlines() if line.startswith("Multiply-adds"))
    assert row.split("  ")[0] == f"Multiply-adds per image of {size} x {size}"
    assert f"{before:,}" in row
    assert f"{after:,}" in row
    assert "assume the strides of torchvision's networks" in lines


def test_a_dry_run_and_a_file_tell_that_the_groups_are_a_guess(llama, tmp_path):
    path = tmp_path / "chain.safetensors"
    shapes = {"0": (9, 7), "2": (5, 9), "4": (3, 5)}
    state = {f"{name}.weight": torch.ones(shape) for name, shape in shapes.items()}
    state["0.weight"][1] = 0
    state["2.weight"][:, 1] = 0
    save_file(state, path)
    guess = "Which channels belong together is a guess"
    assert guess in prune_gui("compact", path, "--dry-run").stdout
    assert guess in prune_gui("compact", path, "-o", tmp_path / "small.safetensors").stdout
    assert json.loads(prune_gui("compact", path, "--dry-run", "--json").stdout)["guessed"] is True
    assert guess not in prune_gui("compact", llama, "--dry-run").stdout


def test_compact_and_apply_write_the_same_files(llama, tmp_path):
    (tmp_path / "zeros.yaml").write_text("version: 1\nstart: zeros\nsteps: []\n")
    first = prune_gui("compact", llama, "-o", tmp_path / "a")
    second = prune_gui(
        "apply", tmp_path / "zeros.yaml", llama, "-o", tmp_path / "b", "--form", "compact"
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "FFN neurons: 16 of 24" in first.stdout
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert load_file(tmp_path / "a" / "model.safetensors")[
        "model.layers.1.mlp.down_proj.weight"
    ].shape == (8, 8)


def test_problems_are_listed_by_a_dry_run_and_refused_on_writing(llama, tmp_path):
    state = load_file(llama / "model.safetensors")
    for name, value in state.items():
        if ".mlp." in name:
            value.zero_()
    save_file(state, llama / "model.safetensors")
    result = prune_gui("compact", llama, "--dry-run")
    assert result.returncode == 0
    assert "Problem: model.layers.0: 0 of 12 FFN neurons" in result.stdout
    refused = prune_gui("compact", llama, "-o", tmp_path / "o")
    assert refused.returncode == 1
    assert "at least 1 must" in refused.stderr
    assert not (tmp_path / "o").exists()


def test_either_a_dry_run_or_an_output_is_needed(llama, tmp_path):
    assert prune_gui("compact", llama).returncode == 2
    assert prune_gui("compact", llama, "--dry-run", "-o", tmp_path / "o").returncode == 2


def test_a_dry_run_lists_the_constants_that_other_layers_take_over(llama, tmp_path):
    state = load_file(llama / "model.safetensors")
    for path in ("model.layers.0.mlp", "model.layers.1.mlp"):
        state |= {f"{path}.{name}_proj.bias": torch.randn(12) for name in ("gate", "up")}
    state["model.layers.0.mlp.down_proj.bias"] = torch.randn(8)
    state["model.layers.0.mlp.down_proj.weight"][:, 2:6] = 1
    save_file(state, llama / "model.safetensors", {"format": "pt"})
    config = {**CONFIG, "mlp_bias": True, "hidden_act": "silu"}
    (llama / "config.json").write_text(json.dumps(config))
    state["model.layers.1.mlp.down_proj.weight"][:, 2] = 1
    save_file(state, llama / "model.safetensors", {"format": "pt"})
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("start: zeros\nsteps:\n- {method: dead_units, targets: ['*']}\n")
    result = prune_gui("compact", llama, "--dry-run", "--recipe", recipe)
    assert result.returncode == 0, result.stderr
    bias = "model.layers.0.mlp.down_proj.bias"
    assert f"{bias}: takes over the constants of 4 units, which changes 8 elements" in (
        result.stdout
    )
    assert "because a layer that reads them has neither a bias nor a batch norm" in result.stdout
    printed = json.loads(
        prune_gui("compact", llama, "--dry-run", "--recipe", recipe, "--json").stdout
    )
    assert printed["folded"] == [{"name": bias, "units": 4, "changed": 8}]
    assert [units["units"] for units in printed["constant"]] == [1]
