"""The schema classes of the methods: validation, texts, and what they say about themselves."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from pydantic import ValidationError

from prune_gui.pruning.methods import METHODS, Method
from prune_gui.pruning.methods.fields import text_of


@pytest.mark.parametrize("amount", [True, math.nan, -0.1, 1.5, -1, "half", None])
def test_invalid_amounts_are_refused(amount):
    with pytest.raises(ValidationError):
        METHODS["l1_unstructured"].model_validate({"amount": amount})


@pytest.mark.parametrize("n", [0, 0.5, 1, 2, 3, "inf", "-inf", "fro", "nuc"])
def test_every_norm_order_round_trips_through_json(n):
    method = METHODS["ln_structured"].model_validate({"n": n})
    assert METHODS["ln_structured"].model_validate(method.model_dump(mode="json")) == method
    assert method.model_dump(mode="json")["n"] == n


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_field_of_every_method_has_a_description(method: type[Method]):
    assert method.__doc__
    assert all(field.description for field in method.model_fields.values())


def test_methods_are_imported_without_torch_and_numpy():
    program = "import sys, prune_gui.pruning.methods; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"torch", "numpy", "numba"} & set(result.stdout.split())


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_field_has_a_label(method: type[Method]):
    assert all(text_of(field).label for field in method.model_fields.values())


@pytest.mark.parametrize(
    ("name", "parameters", "scope"),
    [
        ("l1_unstructured", {"scope": "row"}, "row"),
        ("ln_structured", {"scope": "global"}, "global"),
        ("block", {}, "local"),
        ("lamp", {}, "global"),
        ("balanced", {}, "global"),
        ("balanced", {"over": "row"}, "row"),
        ("n_m", {}, "group"),
        ("threshold", {"value": 1}, "local"),
    ],
)
def test_the_scope_of_the_ranking_says_which_units_share_a_cut(name, parameters, scope):
    assert METHODS[name](**parameters).ranking_scope == scope


@pytest.mark.parametrize(
    ("name", "parameters", "kind"),
    [
        ("l1_unstructured", {}, "weights"),
        ("l1_unstructured", {"importance": "scores.pt"}, "scores"),
        ("lamp", {}, "lamp"),
        ("lamp", {"moved_from": "before.pt"}, "lamp_of_scores"),
        ("lamp", {"score": "ria"}, "lamp_of_scores"),
        ("n_m", {"score": "balanced"}, "scores"),
        ("balanced", {}, "lamp_of_scores"),
        ("balanced", {"over": "global"}, "scores"),
        ("random_unstructured", {}, "random"),
        ("random_structured", {}, "random"),
        ("channels", {"channels": "1"}, None),
        ("identity", {}, None),
    ],
)
def test_the_kind_of_score_depends_on_the_method_and_its_files(name, parameters, kind):
    assert METHODS[name](**parameters).score_kind == kind
