"""A plug-in in a recipe, compared with torch running the same class on a module."""

import gc
import runpy
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune as torch_prune

from prune_gui.errors import RecipeError, StepError
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.plugins import load_methods
from prune_gui.pruning.predicates import PackedMask, PluginMask, masks
from prune_gui.recipe import Recipe, resolve

L1 = {"method": "l1_unstructured", "amount": 0.4}
SHAPES = {"conv.weight": (6, 3, 2, 2), "fc.weight": (5, 24), "head.weight": (24, 5)}

METHOD = """
class {name}(prune.BasePruningMethod):
    PRUNING_TYPE = {kind!r}
    def __init__(self, amount=0.5, dim=0):
        self.amount, self.dim = amount, dim
    def compute_mask(self, t, default_mask):
        {body}
"""
ENTRIES = """
        mask = default_mask.clone().reshape(-1)
        order = t.reshape(-1).argsort(stable=True)
        order = order[default_mask.reshape(-1)[order] == 1]
        mask[order[: round(self.amount * len(order))]] = 0
        return mask.view_as(t)
"""
CHANNELS = """
        order = t.movedim(self.dim, 0).flatten(1).amax(1).argsort(stable=True)
        gone = order[: round(self.amount * len(order))]
        return default_mask.index_fill(self.dim, gone, 0)
"""


def source(kind, body, name="Lowest"):
    return METHOD.format(name=name, kind=kind, body=body.strip())


@pytest.fixture
def weights():
    return {name: torch.randn(shape) for name, shape in SHAPES.items()}


@pytest.fixture
def resolved(on_disk):
    def resolve_steps(tensors, *steps):
        every = [{"targets": ["*"], **step} for step in steps]
        return resolve(Recipe(steps=every), on_disk(tensors))

    return resolve_steps


def modules(tensors):
    made_of = {}
    for name, tensor in tensors.items():
        made_of[name] = nn.Module()
        made_of[name].weight = nn.Parameter(tensor.clone())
    return made_of


@pytest.mark.parametrize("first", [(), (L1,)], ids=["alone", "stacked"])
@pytest.mark.parametrize(
    ("kind", "body", "given"),
    [
        ("unstructured", ENTRIES, {}),
        ("global", ENTRIES, {}),
        ("structured", CHANNELS, {"dim": 0}),
        ("structured", CHANNELS, {"dim": -1}),
    ],
)
def test_masks_agree_with_torch_running_the_same_class(
    plugin_file, weights, resolved, first, kind, body, given
):
    path = plugin_file(source(kind, body))
    load_methods(path)
    live_class = runpy.run_path(str(path))["Lowest"]
    scope = {} if kind == "structured" else {"scope": "local"}
    resolution = resolved(weights, *first, {"method": "lowest", **given, **scope})
    for name, module in modules(weights).items():
        for step in first:
            torch_prune.l1_unstructured(module, "weight", step["amount"])
        live_class.apply(module, "weight", **given)
        assert torch.equal(resolution.mask(name), module.weight_mask.bool())
        assert resolution.counts[name][0] == int((module.weight_mask == 0).sum())


@pytest.mark.parametrize("first", [(), (L1,)], ids=["alone", "stacked"])
def test_scope_global_agrees_with_global_unstructured_of_torch(
    plugin_file, weights, resolved, first
):
    path = plugin_file(source("unstructured", ENTRIES))
    load_methods(path)
    live_class = runpy.run_path(str(path))["Lowest"]
    first = [{**step, "targets": ["fc.*"]} for step in first]
    resolution = resolved(weights, *first, {"method": "lowest", "scope": "global"})
    live = modules(weights)
    for step in first:
        torch_prune.l1_unstructured(live["fc.weight"], "weight", step["amount"])
    torch_prune.global_unstructured([(m, "weight") for m in live.values()], live_class)
    for name, module in live.items():
        assert torch.equal(resolution.mask(name), module.weight_mask.bool())


def test_pruning_type_global_gets_all_targets_as_one_vector(plugin_file, weights, resolved):
    load_methods(plugin_file(source("global", ENTRIES)))
    resolution = resolved(weights, {"method": "lowest", "amount": 0.25})
    pruned, total = resolution.total
    assert pruned == round(total / 4)
    assert len({pruned / size for pruned, size in resolution.counts.values()}) == 3
    assert METHODS["lowest"]().scope == "global"


def test_pruned_elements_stay_pruned_whatever_the_mask_holds(plugin_file, weights, resolved):
    load_methods(plugin_file(source("global", "return torch.ones_like(t)")))
    resolution = resolved(weights, L1, {"method": "lowest"})
    assert resolution.total == resolved(weights, L1).total


def test_a_plug_in_may_modify_its_scores(plugin_file, weights, resolved, tmp_path):
    body = ENTRIES + "\n        "
    load_methods(plugin_file(source("unstructured", body.replace("return", "t.zero_(); return"))))
    before = (tmp_path / "model.safetensors", resolved(weights).checkpoint.read("fc.weight"))
    resolution = resolved(weights, {"method": "lowest"})
    assert torch.equal(resolution.checkpoint.read("fc.weight"), weights["fc.weight"])
    assert torch.equal(before[1], weights["fc.weight"])
    assert resolution.total[0] == sum(round(t.numel() / 2) for t in weights.values())


RANDOM = "return (torch.rand(t.shape) < 0.5).to(t.dtype) * default_mask"


def test_random_numbers_depend_on_seed_and_name_and_not_on_the_global_generator(
    plugin_file, resolved
):
    load_methods(plugin_file(source("unstructured", RANDOM)))
    alike = {"a.weight": torch.ones(40, 5), "b.weight": torch.ones(40, 5)}
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    one, again, other = (
        resolved(alike, {"method": "lowest", "seed": seed}).mask("a.weight") for seed in (0, 0, 1)
    )
    masks = resolved(alike, {"method": "lowest"})
    assert torch.equal(torch.rand(4), expected)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(masks.mask("a.weight"), masks.mask("b.weight"))


def test_an_evicted_mask_is_recomputed_identically(plugin_file, weights, resolved, monkeypatch):
    monkeypatch.setattr(masks, "MAX_CACHED_BYTES", 0)
    load_methods(plugin_file(source("unstructured", RANDOM)))
    steps = [{"method": "lowest", "seed": 1}, L1, {"method": "lowest", "scope": "global"}]
    resolution = resolved(weights, *steps)
    first = {name: resolution.pruned_by(name) for name in weights}
    for name, pruned_by in first.items():
        assert torch.equal(resolution.pruned_by(name), pruned_by)
        assert int((pruned_by > 0).sum()) == resolution.counts[name][0]


def test_concurrent_threads_compute_a_mask_once(plugin_file, weights, resolved, calls_of):
    body = "import time; time.sleep(0.01)\n        return default_mask"
    [method] = load_methods(plugin_file(source("unstructured", body)))
    resolution = resolved(weights, {"method": "lowest"}, L1, {"method": "lowest"})
    masks._kept.clear()
    calls = calls_of(method.process, "ask")
    threads = [
        threading.Thread(target=resolution.pruned_by, args=["fc.weight"], daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(calls) == 2


def test_weights_in_8_bits_are_passed_as_float32(plugin_file, resolved):
    load_methods(plugin_file(source("unstructured", ENTRIES)))
    tensors = {
        "a": torch.randn(4, 5).to(torch.float8_e4m3fn),
        "b": torch.randn(30).to(torch.bfloat16),
    }
    for scope in ("local", "global"):
        resolution = resolved(tensors, L1, {"method": "lowest", "scope": scope})
        assert resolution.total[0] == 20 + 15


NEEDY = """
class Needy(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"
    def __init__(self, keep: int):
        self.keep = keep
    def compute_mask(self, t, default_mask):
        return {mask}
"""


def test_a_method_with_required_parameters_is_tried_on_first_use(plugin_file, weights, resolved):
    load_methods(plugin_file(NEEDY.format(mask="default_mask * (torch.rand(()) < 2)")))
    assert resolved(weights, {"method": "needy", "keep": 3}).total[0] == 0
    load_methods(
        plugin_file(NEEDY.format(mask="default_mask * (torch.arange(t.numel()) % id(self))"))
    )
    with pytest.raises(StepError, match=r"^Step 1: conv\.weight: Needy "):
        resolved(weights, {"method": "needy", "keep": 3})


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ("1 / 0 if t.numel() > 4096 else default_mask", "raised ZeroDivisionError: division"),
        ("default_mask[:4096]", r"shape \(5000,\), but returned a mask of shape \(4096,\)"),
    ],
)
def test_errors_of_a_step_name_the_parameter_and_the_plug_in(plugin_file, resolved, mask, says):
    path = plugin_file(source("unstructured", f"return {mask}"))
    load_methods(path)
    with pytest.raises(
        StepError, match=rf"^Step 1: big: Lowest .*{says}.* \(from .*own\.py\)\.$"
    ) as caught:
        resolved({"big": torch.ones(5000)}, {"method": "lowest"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("scope", "needed", "remedy"),
    [("local", 120 * 13, "another method"), ("global", 312 * 13, "fewer targets")],
)
def test_a_mask_that_does_not_fit_into_memory_is_refused(
    plugin_file, weights, resolved, free_memory, scope, needed, remedy
):
    load_methods(plugin_file(source("unstructured", ENTRIES)))
    step = {"method": "lowest", "scope": scope}
    free_memory(needed)
    assert resolved(weights, step).total[0] > 0
    free_memory(needed - 1)
    with pytest.raises(StepError, match=rf"requires .* of memory, and only .* free; use {remedy}"):
        resolved(weights, step)


class Maker:
    """Returns a mask, and counts the calls."""

    def __init__(self, seed: int, size: int = 800) -> None:
        self.mask = np.random.default_rng(seed).random(size) < 0.5
        self.calls = 0

    def __call__(self) -> np.ndarray:
        self.calls += 1
        return self.mask


@given(st.lists(st.integers(0, 70), min_size=1, max_size=4), st.data())
def test_each_span_of_each_parameter_equals_the_computed_mask(sizes, data):
    maker = Maker(0, sum(sizes))
    packed = PackedMask(maker, "a test")
    firsts = [sum(sizes[:i]) for i in range(len(sizes))]
    for first, size in zip(firsts, sizes, strict=True):
        start = data.draw(st.integers(0, size))
        stop = data.draw(st.integers(start, size))
        part = PluginMask(packed, first).prunes(start, stop)
        assert part.dtype == np.bool_
        assert np.array_equal(part, maker.mask[first + start : first + stop])
        if start < size:
            assert PluginMask(packed, first).element_rank(start).pruned == maker.mask[first + start]
    assert maker.calls == 1


def test_the_least_recently_used_mask_is_evicted_and_computed_again(monkeypatch):
    monkeypatch.setattr(masks, "MAX_CACHED_BYTES", 200)  # two masks of 100 bytes
    makers = [Maker(seed) for seed in range(3)]
    packed = [PackedMask(maker, "a test") for maker in makers]
    for i in (0, 1, 0, 2, 0):  # 2 evicts 1
        packed[i].bits()
    assert [maker.calls for maker in makers] == [1, 1, 1]
    assert np.array_equal(PluginMask(packed[1]).prunes(0, 800), makers[1].mask)
    assert [maker.calls for maker in makers] == [1, 2, 1]


def test_a_mask_above_the_limit_is_cached_while_it_is_in_use(monkeypatch):
    monkeypatch.setattr(masks, "MAX_CACHED_BYTES", 10)
    maker = Maker(0)
    mask = PackedMask(maker, "a test")
    mask.bits()
    mask.bits()
    assert maker.calls == 1


def test_a_mask_without_references_leaves_the_cache():
    before = len(masks._kept)
    mask = PackedMask(Maker(0), "a test")
    mask.bits()
    assert len(masks._kept) == before + 1
    del mask
    gc.collect()
    assert len(masks._kept) == before


def test_a_mask_that_differs_when_computed_again_is_rejected(monkeypatch):
    monkeypatch.setattr(masks, "MAX_CACHED_BYTES", 0)
    maker = Maker(0)
    mask = PackedMask(maker, "Coin (coin.py)")
    mask.bits()
    PackedMask(Maker(1), "a test").bits()  # evicts it
    maker.mask = ~maker.mask
    with pytest.raises(RecipeError, match=r"^Coin \(coin\.py\) returned a different mask"):
        mask.bits()
