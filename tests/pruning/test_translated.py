"""Texts of methods and plug-ins are completely translated."""

import math

import pytest
import torch
import translate
from foreign import foreign, untranslated
from targets import decide, target

from prune_gui.errors import RecipeError
from prune_gui.pruning import l1_unstructured
from prune_gui.pruning.methods import METHODS, summary_of
from prune_gui.pruning.plugins import load_methods

pytestmark = pytest.mark.usefixtures("foreign_language")


def test_all_texts_of_methods_are_translatable():
    known = {message.id for message in translate.found()}
    for method in METHODS.values():
        shown = [field.description for field in method.model_fields.values()]
        assert {method.title, summary_of(method), *shown} <= known


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


def test_default_descriptions_of_a_plug_in_are_translated(plugin_file):
    [method] = load_methods(plugin_file(plugin("default_mask", ", x: int = 1")))
    assert untranslated(summary_of(method), "Odd") == []
    assert untranslated(method.model_fields["x"].description, "Odd") == []


@pytest.mark.parametrize("name", ["{0}", "{w}", "{", "}", "{w!r:>9}", "%(w)s"])
def test_names_with_special_characters_are_shown_unchanged(name):
    odd = target(torch.ones(3), name)
    with pytest.raises(RecipeError) as caught:
        decide("l1_unstructured", odd, amount=4)
    told = foreign(
        "{}: Cannot prune {} units: only {} remain. Lower the amount, or give a share such as 0.5."
    )
    assert str(caught.value) == told.format(name, 4, 3)


def test_errors_of_the_module_api_are_in_english():
    with pytest.raises(ValueError, match="Cannot prune 9 units: only 6 remain"):
        l1_unstructured(torch.nn.Linear(3, 2), "weight", amount=9)
