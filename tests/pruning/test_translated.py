"""Texts of methods and plug-ins are completely translated."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import translate
from foreign import foreign, untranslated
from targets import decide, target

from prune_gui.errors import PluginError, RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning import l1_unstructured
from prune_gui.pruning.methods import METHODS, summary_of
from prune_gui.pruning.plugins import load_methods

pytestmark = pytest.mark.usefixtures("foreign_language")


def test_all_texts_of_methods_are_translatable():
    known = {message.id for message in translate.found()}
    for method in METHODS.values():
        shown = [field.description for field in method.model_fields.values()]
        assert {method.title, summary_of(method), *shown} <= known


def test_the_memory_error_of_a_norm_is_translated(free_memory):
    free_memory(1)
    given = target(torch.ones(3, 2, 2), remaining_mask=np.arange(12) > 0)
    with pytest.raises(RecipeError) as caught:
        decide("ln_structured", given, n="nuc", dim=0, amount=1)[0].predicate.prunes(0, 1)
    assert untranslated(str(caught.value), "w") == []


@pytest.mark.parametrize(
    ("method", "parameters", "note"),
    [
        ("l1_unstructured", {"amount": 0.9, "max_sparsity": 0.5}, "held"),
        ("l1_unstructured", {"amount": 2, "max_sparsity": 0.25, "scope": "global"}, "held"),
        ("ln_structured", {"amount": 2, "max_sparsity": 0.5}, "held"),
        ("l1_unstructured", {"amount": 1}, "odd"),
        ("ln_structured", {"amount": 1}, "odd"),
        ("block", {"amount": 1, "height": 1, "width": 1}, "odd"),
    ],
)
def test_notes_of_decisions_are_translated(method, parameters, note):
    weights = torch.tensor([[1.0, 2.0], [math.nan, 4.0]])
    [decision] = decide(method, target(weights), **parameters)
    decision.predicate.prunes(0, 4)
    told = decision.note if note == "held" else decision.predicate.note
    assert told
    assert untranslated(told) == []


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("l1_unstructured", {"scope": "row"}),
        ("ln_structured", {}),
        ("n_m", {"n": 1, "m": 2}),
        ("n_m", {"n": 1, "m": 3, "tail": "keep"}),
        ("block", {"height": 1, "width": 1}),
        ("block", {"height": 3, "width": 3, "tail": "keep", "amount": 0.0}),
    ],
)
def test_element_ranks_are_translated(method, parameters):
    [decision] = decide(method, target(torch.rand(2, 4)), **parameters)
    unit = decision.predicate.element_rank(7).unit
    assert unit.startswith("⟦")
    assert untranslated(unit) == []


def plugin(body: str, parameters: str = "", kind: str = "'unstructured'") -> str:
    return f"""
class Odd(prune.BasePruningMethod):
    PRUNING_TYPE = {kind}
    def __init__(self{parameters}):
        pass
    def compute_mask(self, t, default_mask):
        return {body}
"""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("1 / 0", ("ZeroDivisionError", "division by zero")),
        ("raise ValueError", ("ValueError",)),
        ("import sys; sys.exit(0)", ()),
        ("x = = 3", ("invalid syntax",)),
        ("x = 3", ()),
        (plugin("None"), ("NoneType",)),
        (plugin("default_mask[:1]"), ()),
        (plugin("default_mask * 0.5"), ()),
        (plugin("default_mask", kind="'some'"), ("some",)),
        (plugin("default_mask", kind="'structured'"), ()),
        (plugin("default_mask", ", x"), ("x",)),
        (plugin("default_mask", ", targets=1"), ("targets",)),
        (plugin("default_mask", ", amount=2.5"), ("amount",)),
        (plugin("default_mask").replace("Odd", "Identity"), ("identity",)),
        (plugin("default_mask * (torch.arange(t.numel()) % id(self)).view(t.shape)"), ()),
    ],
)
def test_errors_of_loading_a_plug_in_are_translated(plugin_file, source, names):
    path = plugin_file(source)
    with pytest.raises(PluginError) as caught:
        load_methods(path)
    assert untranslated(str(caught.value), str(path), "Odd", *names) == []


def test_errors_of_a_plug_in_step_are_translated(plugin_file, free_memory):
    path = plugin_file(plugin("default_mask if t.numel() < 9999 else None"))
    [method] = load_methods(path)
    with pytest.raises(RecipeError) as caught:
        method().decide([target(torch.ones(9999))], Monitor())
    assert untranslated(str(caught.value), str(path), "w", "Odd", "NoneType") == []
    free_memory(1)
    for scope in ("local", "global"):
        with pytest.raises(RecipeError) as caught:
            method(scope=scope).decide([target(torch.ones(9))], Monitor())
        assert untranslated(str(caught.value), str(path), "w", "Odd") == []


def test_default_descriptions_of_a_plug_in_are_translated(plugin_file):
    [method] = load_methods(plugin_file(plugin("default_mask", ", x: int = 1")))
    assert untranslated(summary_of(method), "Odd") == []
    assert untranslated(method.model_fields["x"].description, "Odd") == []


@pytest.mark.parametrize("name", ["{0}", "{w}", "{", "}", "{w!r:>9}", "%(w)s"])
def test_names_with_special_characters_are_shown_unchanged(name):
    odd = target(torch.ones(3), name)
    with pytest.raises(RecipeError) as caught:
        decide("l1_unstructured", odd, amount=4)
    told = foreign("{}: Cannot prune {} units: only {} remain.")
    assert str(caught.value) == told.format(name, 4, 3)


def test_errors_of_the_module_api_are_in_english():
    with pytest.raises(ValueError, match="Cannot prune 9 units: only 6 remain"):
        l1_unstructured(torch.nn.Linear(3, 2), "weight", amount=9)
