"""Fields of config.json that depend on the numbers of layers, and other names of parameters.

transformers builds the model from the new config.json. Its outputs must be those of the original
model that skips the removed layers.
"""

import json

import pytest
import torch
from compact_models import compacted, passed_through, script
from safetensors.torch import load_file, save_file
from transformer_families import FAMILIES, load_model, outputs, save_model

from prune_gui import open_checkpoint
from prune_gui.errors import RecipeError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
SPARSE = {"decoder_sparse_step": 2, "mlp_only_layers": []}
SCALED = {"scale_attn_by_inverse_layer_idx": True}
SLIDING = {"sliding_window": 3}


def without_layers(source, out, layers, stack="all"):
    return compacted(source, out, {"method": "layers", "stack": stack, "layers": layers})


def edit_config(folder, **fields):
    """Change fields of config.json; None removes them."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | fields
    kept = {key: value for key, value in config.items() if value is not None}
    path.write_text(json.dumps(kept))


@pytest.mark.parametrize(
    ("family", "built", "edited", "gone"),
    [
        ("qwen3-moe", SPARSE, {}, [0, 1]),
        ("qwen3-moe", SPARSE, {}, [3]),
        ("qwen3-moe", {"mlp_only_layers": [0, 2, 3]}, {}, [1, 2]),
        ("gpt2", SCALED, {}, [2, 3]),
        ("qwen2", SLIDING, {"layer_types": None}, [0]),
        ("gemma2", SLIDING | {"layer_types": None}, {"layer_types": None}, [1]),
        ("gemma3", SLIDING | {"layer_types": None}, {"layer_types": None}, [0]),
        (
            "gemma3",
            SLIDING | {"layer_types": ["sliding_attention", "full_attention"] * 2},
            {"layer_types": None, "sliding_window_pattern": 2},
            [0],
        ),
        ("cohere2", SLIDING, {"layer_types": None}, [1]),
        ("exaone4", SLIDING, {"sliding_window_pattern": "LLLG"}, [1]),
        ("smollm3", {"no_rope_layers": None}, {"no_rope_layers": None}, [1]),
        (
            "smollm3",
            {"no_rope_layers": [1, 0, 1, 0]},
            {"no_rope_layers": None, "no_rope_layer_interval": 2},
            [1],
        ),
        ("deepseek-v3", {}, {"moe_layer_freq": 1}, [1]),
    ],
)
def test_a_config_whose_fields_depend_on_layers_fits_the_rest(
    family, built, edited, gone, tmp_path
):
    source = tmp_path / "in"
    save_model(family, source, **built)
    edit_config(source, **edited)
    without_layers(source, tmp_path / "out", gone)
    original = load_model(family, source)
    expected = outputs(original)
    path = "transformer.h" if family == "gpt2" else "model.layers"
    for number in gone:
        layer = original.get_submodule(f"{path}.{number}")
        layer.register_forward_hook(passed_through, with_kwargs=True)
    skipped = outputs(original)
    assert not torch.allclose(skipped, expected, rtol=1e-3, atol=1e-3)
    found = outputs(load_model(family, tmp_path / "out"))
    torch.testing.assert_close(found, skipped, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "config", "edited", "field"),
    [
        ("qwen3-moe", SPARSE, {}, "decoder_sparse_step"),
        ("deepseek-v3", {}, {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("gpt2", SCALED, {}, "scale_attn_by_inverse_layer_idx"),
        ("qwen2-moe", SLIDING | {"use_sliding_window": True}, {"layer_types": None}, "use_slid"),
        ("wav2vec2", {"use_weighted_layer_sum": True}, {}, "use_weighted_layer_sum"),
        ("exaone4", {}, {"layer_types": None, "sliding_window_pattern": "LLLG"}, "LLLG"),
    ],
)
def test_layers_that_would_shift_a_pattern_are_not_removed(family, config, edited, field, tmp_path):
    save_model(family, tmp_path / "in", **config)
    edit_config(tmp_path / "in", **edited)
    with pytest.raises(RecipeError, match=field) as raised:
        without_layers(tmp_path / "in", tmp_path / "out", [0])
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_layers_that_have_a_prompt_each_are_not_removed(stack, tmp_path, monkeypatch):
    monkeypatch.setitem(FAMILIES, "mvp", ("MvpModel", FAMILIES["bart"][1]))
    save_model("mvp", tmp_path / "in", use_prompt=True)
    with pytest.raises(RecipeError, match="use_prompt"):
        without_layers(tmp_path / "in", tmp_path / "out", [0], stack)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("gone", "layers", "extra"), [([0], 3, 1), ([4], 4, 0), ([1, 4], 3, 0)])
def test_blocks_that_predict_further_tokens_are_no_layers(gone, layers, extra, tmp_path):
    save_model("deepseek-v3", tmp_path / "in", num_hidden_layers=5)
    edit_config(tmp_path / "in", num_hidden_layers=4, num_nextn_predict_layers=1)
    config = without_layers(tmp_path / "in", tmp_path / "out", gone)
    assert (config["num_hidden_layers"], config["num_nextn_predict_layers"]) == (layers, extra)
    with open_checkpoint(tmp_path / "out") as checkpoint:
        numbers = {int(name.split(".")[2]) for name in checkpoint.tensors if ".layers." in name}
    assert numbers == set(range(layers + extra))


def test_all_layers_but_those_that_predict_further_tokens_are_not_removed(tmp_path):
    save_model("deepseek-v3", tmp_path / "in", num_hidden_layers=5)
    edit_config(tmp_path / "in", num_hidden_layers=4, num_nextn_predict_layers=1)
    with pytest.raises(RecipeError, match="All layers would be removed"):
        without_layers(tmp_path / "in", tmp_path / "out", [0, 1, 2, 3])


def test_layers_of_an_unknown_type_stay_and_their_neurons_go(tmp_path, monkeypatch):
    config = {**FAMILIES["bert"][1], "visual_embedding_dim": 16}
    monkeypatch.setitem(FAMILIES, "visual-bert", ("VisualBertModel", config))
    save_model("visual-bert", tmp_path / "in")
    with pytest.raises(RecipeError, match="layers: no known program loads fewer"):
        without_layers(tmp_path / "in", tmp_path / "out", [1])
    config = compacted(tmp_path / "in", tmp_path / "out", {"method": "coupled", "space": "ffn"})
    assert config["intermediate_size"] == 6
    load_model("visual-bert", tmp_path / "out")


UNEVEN = (
    {"method": "listed_units", "space": "ffn", "units": [0, 3]},
    {"method": "listed_units", "space": "ffn", "units": [5], "targets": ["*.1.*"]},
)


def rename(folder, new_name, **extra):
    path = folder / "model.safetensors"
    tensors = {new_name(name): tensor for name, tensor in load_file(path).items()}
    save_file(tensors | extra, path, {"format": "pt"})


def test_the_loader_script_loads_names_that_transformers_knows(tmp_path):
    save_model("gpt2", tmp_path / "a")
    save_model("gpt2", tmp_path / "b")
    rename(tmp_path / "b", lambda name: name.removeprefix("transformer."))
    for name in ("a", "b"):
        compacted(tmp_path / name, tmp_path / f"{name}-out", *UNEVEN)
    one, other = (script(tmp_path / f"{name}-out").load().eval() for name in ("a", "b"))
    assert torch.equal(outputs(one), outputs(other))
    assert one.transformer.h[1].mlp.c_fc.nf == 61


def test_the_loader_script_tells_the_layers_of_two_models_in_a_file_apart(tmp_path, monkeypatch):
    name, config = FAMILIES["llava"]
    images = {**config["vision_config"], "model_type": "siglip_vision_model"}
    text = {**config["text_config"], "model_type": "phi"}
    config = {**config, "text_config": text, "vision_config": images}
    monkeypatch.setitem(FAMILIES, "llava-phi", (name, config))
    save_model("llava-phi", tmp_path / "in")
    compacted(tmp_path / "in", tmp_path / "out", *UNEVEN)
    state = load_file(tmp_path / "out" / "model.safetensors")
    layers = script(tmp_path / "out").load().model.language_model.layers
    for number, width in enumerate((10, 9, 10, 10)):
        stored = state[f"language_model.model.layers.{number}.mlp.fc1.weight"]
        assert stored.shape[0] == width
        assert torch.equal(layers[number].mlp.fc1.weight, stored)


def test_the_loader_script_ignores_buffers_of_earlier_versions(tmp_path):
    save_model("bert", tmp_path / "in")
    positions = {"embeddings.position_ids": torch.arange(512)[None]}
    rename(tmp_path / "in", str, **positions)
    compacted(tmp_path / "in", tmp_path / "out", *UNEVEN)
    model = script(tmp_path / "out").load()
    assert model.encoder.layer[1].intermediate.dense.out_features == 9


def test_the_loader_script_never_leaves_random_weights(tmp_path):
    save_model("bert", tmp_path / "in")
    compacted(tmp_path / "in", tmp_path / "out", *UNEVEN)
    path = tmp_path / "out" / "model.safetensors"
    tensors = load_file(path)
    del tensors["encoder.layer.2.output.dense.bias"]
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(RuntimeError, match=r"encoder\.layer\.2\.output\.dense\.bias"):
        script(tmp_path / "out").load()
