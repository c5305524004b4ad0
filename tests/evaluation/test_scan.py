"""Scans: one target or group at a time."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from prune_gui import open_checkpoint, scan
from prune_gui.errors import EvaluationError, RecipeError
from prune_gui.evaluation.trials import groups_of

ZEROS = """
    def evaluate(sd):
        zeros = {name: float((t == 0).double().mean()) for name, t in sd.items()}
        if zeros["encoder.0.b.weight"] > 0.6:
            raise ValueError("too sparse")
        return {"score": sum(zeros.values()), **zeros}
"""


@pytest.fixture
def network(tmp_path):
    torch.manual_seed(0)
    names = ("encoder.0.a.weight", "encoder.0.b.weight", "encoder.1.a.weight", "head[0].weight")
    tensors = {name: torch.randn(8, 10) for name in names}
    tensors["head[0].bias"] = torch.randn(8)
    save_file(tensors, tmp_path / "net.safetensors")
    with open_checkpoint(tmp_path / "net.safetensors") as opened:
        yield opened


def test_groups_are_parameters_or_share_the_first_parts_of_the_name(network):
    assert list(groups_of(network, ["dims>1"], None)) == [
        *("encoder.0.a.weight", "encoder.0.b.weight", "encoder.1.a.weight", "head[0].weight"),
    ]
    assert list(groups_of(network, ["encoder*"], 2)) == ["encoder.0", "encoder.1"]
    with pytest.raises(RecipeError, match="no parameter that can be pruned"):
        groups_of(network, ["nothing*"], None)


@pytest.mark.slow
def test_each_target_is_pruned_by_itself(evaluator, network):
    result = scan(evaluator(ZEROS), network, [0.5, 0.8])
    assert result.dense.metrics["score"] == 0
    seen = result.trials
    assert [(t.label, t.amount) for t in seen[:3]] == [
        *(("encoder.0.a.weight", 0.5), ("encoder.0.a.weight", 0.8), ("encoder.0.b.weight", 0.5)),
    ]
    for trial in seen:
        if trial.label == "encoder.0.b.weight" and trial.amount == 0.8:
            assert "raised ValueError: too sparse" in trial.error
        else:
            assert trial.value == trial.evaluation.metrics[trial.label] == trial.amount
    groups = scan(evaluator(ZEROS), network, [0.5], targets=["encoder*"], depth=2)
    assert [trial.value for trial in groups.trials] == [1.0, 0.5]


@pytest.mark.slow
def test_a_scan_that_cannot_begin_is_one_message(evaluator, network):
    with pytest.raises(RecipeError, match="no method with an amount"):
        scan(evaluator(ZEROS), network, method="identity")
    with pytest.raises(RecipeError, match="no method with an amount"):
        scan(evaluator(ZEROS), network, method="no_such")
    with pytest.raises(EvaluationError, match="raised ValueError: always"):
        scan(evaluator("def evaluate(sd): raise ValueError('always')"), network)
