"""Compact checkpoints of transformer families, as transformers loads and runs them.

The outputs must be those of the original model with the weights of the finalized form, or without
the removed layers or experts.
"""

import logging
import runpy
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from compact_models import passed_through, script
from torch.overrides import TorchFunctionMode
from transformer_families import FAMILIES, SPACES, load_model, outputs, save_model
from written_files import contents

import prune_gui
from prune_gui import Recipe, export, open_checkpoint, resolve
from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.errors import RecipeError
from prune_gui.resources import resource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
NEURONS = ("ffn", "encoder_ffn", "decoder_ffn", "shared_ffn", "vision_ffn", "channels")
"""Spaces that the loader script can give other widths in each layer, but for those of states."""
STATES = ("mamba", "falcon-mamba")
HARMLESS = (
    *("rope_parameters", "xIELU", "`attn_config`", "padded to be", "setting its attention"),
    "fast path is not available",
)
"""Parts of warnings about the original model."""
REFUSED = "no known program loads fewer|programs load fewer only with the same share"
CASES = [(family, space) for family, names in SPACES.items() for space in names.split()]
RANKED = [
    (family, space)
    for family, space in CASES
    if space not in ("tokens", "hidden") and not space.endswith("layers")
]
STACKS = [(family, space) for family, space in CASES if space.endswith("layers")]
MIXTURES = [family for family, space in CASES if space == "experts"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a function that gives the folder of a family's model.

    Every second family has several shards, and every third has bfloat16 values.
    """

    @cache
    def folder_of(family):
        number = list(FAMILIES).index(family)
        options = {
            "dtype": "float32" if number % 3 else "bfloat16",
            "shard_size": "1GB" if number % 2 else "12KB",
        }
        folder = tmp_path_factory.mktemp(family)
        save_model(family, folder, **options)
        return folder

    return folder_of


@pytest.fixture(autouse=True)
def transformers_warnings(caplog):
    """Let warnings of transformers fail the test, but not those about the original config."""
    import transformers

    transformers.utils.logging.enable_propagation()
    yield
    transformers.utils.logging.disable_propagation()
    records = caplog.get_records("call")
    remarks = [record.getMessage() for record in records if record.levelno >= logging.WARNING]
    assert not [remark for remark in remarks if not any(part in remark for part in HARMLESS)]


@pytest.mark.parametrize(("family", "space"), RANKED)
def test_a_model_with_fewer_units_equals_the_masked_one(saved, family, space, tmp_path):
    source = saved(family)
    step = {"method": "coupled", "space": space}
    if (space, FAMILIES[family][0]) == ("experts", "DeepseekV3ForCausalLM"):
        step = {"method": "experts", "experts": [0, 3, 5, 6]}  # two of each group of four
    check_units(family, source, space, step, tmp_path)


@pytest.mark.parametrize(("family", "space"), RANKED)
def test_a_model_with_other_widths_in_each_layer_equals_the_masked_one(
    saved, family, space, tmp_path
):
    source = saved(family)
    with open_checkpoint(source) as checkpoint:
        groups = coupled_groups(checkpoint, space)
        loadable = is_loadable(checkpoint, space)
    if len(groups) < 2 or not loadable:
        return
    path = groups[0].label
    steps = [
        {"method": "listed_units", "space": space, "units": [0], "targets": ["*"]},
        {"method": "listed_units", "space": space, "units": [2], "targets": [f"{path}.*"]},
    ]
    if space in NEURONS and family not in STATES:
        loaders = check_units(family, source, space, steps, tmp_path)
        assert loaders
    else:
        with pytest.raises(RecipeError, match=r"different numbers|must keep equally many"):
            compacted(source, steps, tmp_path / "compact")
        assert not (tmp_path / "compact").exists()


@pytest.mark.parametrize("name", ["compact", "in/compact.safetensors"])
@pytest.mark.parametrize(
    ("family", "step"),
    [
        ("llama", {"method": "coupled", "space": "kv_groups"}),
        ("t5", {"method": "coupled", "space": "heads"}),
        ("clip", {"method": "coupled", "space": "vision_ffn"}),
        ("qwen2-moe", {"method": "experts", "experts": [0, 5]}),
        ("vit", {"method": "layers", "layers": [1]}),
    ],
)
def test_the_loader_also_makes_the_changes_of_the_config(family, step, name, tmp_path):
    save_model(family, tmp_path / "in")
    everywhere = {**step, "targets": ["*"]}
    compacted(tmp_path / "in", everywhere, tmp_path / "uniform")
    neuron = one_neuron(tmp_path / "uniform")
    expected = outputs(masked_model(family, tmp_path / "uniform", neuron, tmp_path))
    compacted(tmp_path / "in", [everywhere, *one_neuron(tmp_path / "in")], tmp_path / name)
    model = load_model(family, tmp_path / "in")
    load = script((tmp_path / name).parent if "/" in name else tmp_path / name).load
    assert load(model) is model
    for found in (load(), model):
        found.set_attn_implementation("eager")
        found.config._experts_implementation = "eager"
        torch.testing.assert_close(outputs(found.eval()), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gone", [[0], [1]])
@pytest.mark.parametrize(("family", "space"), STACKS)
def test_a_model_with_fewer_layers_equals_the_one_that_skips_them(
    saved, family, space, gone, tmp_path
):
    source = saved(family)
    stack = space.removesuffix("layers").rstrip("_") or "all"
    step = {"method": "layers", "layers": gone, "stack": stack}
    with open_checkpoint(source) as checkpoint:
        loadable = is_loadable(checkpoint, space)
    if not loadable:
        with pytest.raises(RecipeError, match=REFUSED):
            compacted(source, step, tmp_path / "compact")
        return
    before = contents(source)
    _, loaders = compacted(source, step, tmp_path / "compact")
    assert contents(source) == before
    assert not loaders
    with open_checkpoint(source) as checkpoint:
        labels = [group.label for group in coupled_groups(checkpoint, space)]
    original = load_model(family, source).float()
    expected = outputs(original)
    for label in labels:
        for number in gone:
            path = label.replace(
                "language_model.model", "model.language_model"
            )  # LLaVA's in memory
            layer = original.get_submodule(f"{path}.{number}")
            layer.register_forward_hook(passed_through, with_kwargs=True)
    skipped = outputs(original)
    assert not torch.allclose(skipped, expected, rtol=1e-3, atol=1e-3)
    found = outputs(load_model(family, tmp_path / "compact").float())
    torch.testing.assert_close(found, skipped, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", MIXTURES)
def test_a_model_without_listed_experts_equals_the_one_that_never_picks_them(
    saved, family, tmp_path
):
    step = {"method": "experts", "experts": [1, 2, 4, 5] if "deepseek" in family else [0, 5]}
    check_units(family, saved(family), "experts", step, tmp_path)


@pytest.mark.parametrize("family", ["llama", "mixtral", "bert", "t5"])
@pytest.mark.parametrize("shard_size", ["1GB", "12KB"])
def test_a_folder_that_is_replaced_by_its_compact_form_loads(family, shard_size, tmp_path):
    save_model(family, tmp_path / "in", shard_size=shard_size)
    (tmp_path / "in" / "README.md").write_text("kept")
    step = {"method": "coupled", "space": SPACES[family].split()[0]}
    compacted(tmp_path / "in", step, tmp_path / "elsewhere")
    compacted(tmp_path / "in", step, tmp_path / "in", overwrite=True)
    there, here = contents(tmp_path / "elsewhere"), contents(tmp_path / "in")
    assert here == {**there, "README.md": b"kept"}
    load_model(family, tmp_path / "in")


def check_units(family, source, space, steps, folder):
    """Compact a checkpoint, and compare the outputs; return the loader scripts."""
    with open_checkpoint(source) as checkpoint:
        loadable = is_loadable(checkpoint, space)
    before = contents(source)
    if not loadable:
        with pytest.raises(RecipeError, match=REFUSED):
            compacted(source, steps, folder / "compact")
        assert not (folder / "compact").exists()
        return []
    masks, loaders = compacted(source, steps, folder / "compact")
    assert contents(source) == before
    if loaders:
        load = script(folder / "compact").load
        models = [load(), load(load_model(family, source))]
        for model in models:
            assert type(model).__name__ == FAMILIES[family][0]
            model.set_attn_implementation("eager")
            model.config._experts_implementation = "eager"
    else:
        models = [load_model(family, folder / "compact")]
    masked = masked_model(family, source, steps, folder)
    original = load_model(family, source)
    with Unpicked(unpicked(masked, masks) if space == "experts" else []):
        expected = outputs(masked.float())
    assert not torch.allclose(expected, outputs(original.float()), rtol=1e-3, atol=1e-3)
    for model in models:
        torch.testing.assert_close(outputs(model.float()), expected, rtol=1e-4, atol=1e-5)
        assert number_of(model) < number_of(original)
    return loaders


def is_loadable(checkpoint, space):
    """Return whether programs can load fewer units of a space alone."""
    rule = spaces(checkpoint)[space]
    return rule.loadable and not rule.loadable_with


def one_neuron(source):
    """Return a step that prunes a neuron of the last FFN."""
    with open_checkpoint(source) as checkpoint:
        path = coupled_groups(checkpoint, "ffn")[-1].label
    return [{"method": "listed_units", "space": "ffn", "units": [2], "targets": [f"{path}.*"]}]


def compacted(source, steps, out, **options):
    """Write the compact form; return the masks of all targets, and the loader scripts."""
    with open_checkpoint(source) as checkpoint:
        resolution = resolution_of(checkpoint, steps)
        masks = {name: resolution.mask(name) for name in resolution.layers}
        export(resolution, out, "compact", **options)
    return masks, list(out.glob("load_*.py"))


def resolution_of(checkpoint, steps):
    listed = steps if isinstance(steps, list) else [{**steps, "targets": ["*"]}]
    return resolve(Recipe(steps=listed), checkpoint)


def masked_model(family, source, steps, folder):
    """Load the finalized form."""
    shutil.copytree(source, folder / "masked")
    with open_checkpoint(source) as checkpoint:
        sharded = checkpoint.path.name.endswith(".index.json")
        out = folder / "masked" if sharded else folder / "masked" / "model.safetensors"
        export(resolution_of(checkpoint, steps), out, overwrite=True)
    return load_model(family, folder / "masked")


def unpicked(model, masks):
    """Return the weight of each router, and which experts it must not pick."""
    found = []
    for name, mask in masks.items():
        path, _, leaf = name.rpartition(".")
        if path.endswith((".gate", ".router")) and leaf == "weight":
            router = model.get_submodule(path.replace("block_sparse_moe", "mlp"))
            gone = ~mask.any(1)
            if hasattr(router, "e_score_correction_bias"):
                router.e_score_correction_bias[gone] = -1e4
            found.append((router, gone))
    assert found
    return found


class Unpicked(TorchFunctionMode):
    """Gives the experts that routers must not pick the lowest logits."""

    def __init__(self, routers):
        super().__init__()
        self.routers = routers

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.nn.functional.linear:
            for router, gone in self.routers:
                if args[1] is router.weight:
                    result[..., gone] = -1e9
        return result


def number_of(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_compact_demo_equals_masked(demo_checkpoint: Path, tmp_path: Path) -> None:
    load = runpy.run_path(str(resource("demo") / "model.py"))["load"]
    recipe = prune_gui.Recipe.from_yaml(
        "version: 1\nsteps: [{method: coupled, targets: ['*'], space: channels, amount: 0.25}]"
    )
    with prune_gui.open_checkpoint(demo_checkpoint) as checkpoint:
        resolution = prune_gui.resolve(recipe, checkpoint)
        for form in ("finalized", "compact"):
            prune_gui.export(resolution, tmp_path / f"{form}.safetensors", form=form)
    masked, compact = (
        load(tmp_path / f"{form}.safetensors").eval() for form in ("finalized", "compact")
    )
    images = torch.rand(8, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(compact(images), masked(images), rtol=1e-4, atol=1e-5)
    assert compact.features.conv3.out_channels == 48
