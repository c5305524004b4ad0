"""Globs found for a set of parameters."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui import open_checkpoint
from prune_gui.checkpoint import TensorInfo
from prune_gui.errors import StepError
from prune_gui.recipe import Recipe, patterns_for, resolve, select
from prune_gui.recipe.patterns import match_recipe, most_targeted


def tensor(name: str, *shape: int, aliases: tuple[str, ...] = (), dtype: str = "float32"):
    return TensorInfo(name, shape or (2, 2), dtype, aliases=aliases)


def chosen(patterns, tensors):
    if not patterns:
        return []
    return [t.name for t in select(patterns, tensors) if not t.not_prunable]


parts = st.sampled_from(
    ["layer", "0", "1", "10", "weight", "bias", "norm", "a[b]", "*", "!", ",", ""]
)
names = st.lists(parts, min_size=1, max_size=4).map(".".join) | st.text(max_size=3)


@st.composite
def choices(draw):
    every = draw(st.lists(names, unique=True, min_size=1, max_size=12))
    first, tied = every[: len(every) // 2 + 1], every[len(every) // 2 + 1 :]
    tensors = [
        tensor(
            name,
            aliases=(tied[i],) if i < len(tied) else (),
            dtype=draw(st.sampled_from(["float32", "int64"])),
        )
        for i, name in enumerate(first)
    ]
    return draw(st.sets(st.sampled_from(first))), tensors


@given(choices())
def test_the_globs_select_exactly_the_wanted_parameters(choice):
    wanted, tensors = choice
    prunable = [t.name for t in tensors if not t.not_prunable]
    assert chosen(patterns_for(wanted, tensors), tensors) == [n for n in prunable if n in wanted]


TRANSFORMER = [
    tensor("embeddings.word.weight"),
    tensor("embeddings.position_ids", 1, 512, dtype="int64"),
    *(
        tensor(f"encoder.layer.{i}.{name}", *shape)
        for i in range(12)
        for name, shape in {
            "attention.query.weight": (8, 8),
            "attention.query.bias": (8,),
            "output.dense.weight": (8, 8),
            "output.dense.bias": (8,),
            "output.LayerNorm.weight": (8,),
            "output.LayerNorm.bias": (8,),
        }.items()
    ),
    tensor("pooler.dense.weight"),
    tensor("pooler.dense.bias", 2),
]


def matrices(*prefixes: str) -> set[str]:
    return {t.name for t in TRANSFORMER if t.name.startswith(prefixes) and len(t.shape) == 2}


def test_a_module_becomes_a_glob_with_shared_exclusions():
    assert patterns_for(matrices("encoder"), TRANSFORMER) == (
        "encoder.layer.*",
        "!*.bias",
        "!*.LayerNorm.*",
    )


def test_several_modules_become_one_glob_each():
    wanted = matrices("encoder.layer.1.", "encoder.layer.10.", "embeddings")
    assert patterns_for(wanted, TRANSFORMER) == (
        "embeddings.word.weight",
        "encoder.layer.1.*",
        "encoder.layer.10.*",
        "!*.bias",
        "!*.LayerNorm.*",
    )


def test_a_component_of_many_modules_becomes_one_glob():
    wanted = {t.name for t in TRANSFORMER if "query.weight" in t.name}
    assert patterns_for(wanted, TRANSFORMER) == ("encoder.layer.*.query.*", "!*.bias")


def test_the_whole_model_is_a_star():
    assert patterns_for([t.name for t in TRANSFORMER], TRANSFORMER) == ("*",)


def test_one_parameter_is_its_name():
    assert patterns_for(["pooler.dense.bias"], TRANSFORMER) == ("pooler.dense.bias",)


def test_an_irregular_choice_becomes_exact_names():
    wanted = ["encoder.layer.3.output.dense.bias", "encoder.layer.7.output.dense.weight"]
    assert patterns_for(wanted, TRANSFORMER) == tuple(wanted)


def test_parameters_that_cannot_be_pruned_are_ignored():
    assert patterns_for(["embeddings.position_ids"], TRANSFORMER) == ()


NAMES = ("a.weight", "a.bias", "b.weight", "b.steps")
PATTERNS = ("a.*", "*.weight", "c.*", "!a.*", "b.steps", "dims>1", "a.* size>100", "!c.*")


def recipe_of(*steps, protect=()):
    entries = [{"method": "l1_unstructured", "amount": 0.5, **step} for step in steps]
    return Recipe.model_validate({"steps": entries, "protect": protect})


def saved(tmp_path):
    tensors = {"a.weight": torch.ones(4, 4), "a.bias": torch.ones(4), "b.weight": torch.ones(4)}
    save_file({**tensors, "b.steps": torch.tensor([3])}, tmp_path / "model.safetensors")
    return open_checkpoint(tmp_path / "model.safetensors")


@given(
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4, unique=True),
    protect=st.lists(st.sampled_from(["a.bias", "b.*"]), max_size=1),
)
def test_matches_are_those_of_resolving(tmp_path_factory, patterns, protect):
    recipe = recipe_of({"targets": patterns}, protect=protect)
    with saved(tmp_path_factory.mktemp("match_recipe")) as checkpoint:
        [one] = match_recipe(recipe, checkpoint)
        if one.targets:
            [outcome] = resolve(recipe, checkpoint).outcomes
            assert set(one.targets) == set(outcome.pruned)
            told = {text for text, note in outcome.remarks.items() if "no parameter" in note}
            assert set(one.unmatched) == told
        else:
            with pytest.raises(StepError, match=r"(?i)change the targets"):
                resolve(recipe, checkpoint)


def test_disabled_steps_are_omitted_and_keep_their_numbers(tmp_path):
    recipe = recipe_of({"targets": ["c.*"], "enabled": False}, {"targets": ["c.*", "a.weight"]})
    with saved(tmp_path) as checkpoint:
        [one] = match_recipe(recipe, checkpoint)
    assert (one.number, one.targets, one.unmatched) == (2, ("a.weight",), ("c.*",))


def test_a_condition_on_sparsity_is_assumed_to_hold(tmp_path):
    recipe = recipe_of(
        {"targets": ["a.* sparsity>90%", "c.* sparsity>1%", "sparsity<10% dims>1"]},
        {"targets": ["*.weight", "!sparsity>90%"]},
    )
    with saved(tmp_path) as checkpoint:
        first, second = match_recipe(recipe, checkpoint)
    assert set(first.targets) == {"a.weight", "a.bias"}
    assert first.unmatched == ("c.* sparsity>1%",)
    assert second.targets == ("a.weight", "b.weight")


def test_the_parameter_that_most_steps_target_is_the_first_of_them_in_the_file(tmp_path):
    with saved(tmp_path) as checkpoint:
        first, last = ({"targets": [name]} for name in ("a.weight", "b.weight"))
        assert most_targeted(recipe_of(), checkpoint) is None
        assert most_targeted(recipe_of(last, first), checkpoint) == "a.weight"
        assert most_targeted(recipe_of(last, first, last), checkpoint) == "b.weight"
        off = {**last, "enabled": False}
        assert most_targeted(recipe_of(first, off, off), checkpoint) == "a.weight"
