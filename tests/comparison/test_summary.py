import numpy as np
import pytest
import torch

from prune_gui.comparison.summary import summarize
from prune_gui.monitor import Monitor
from prune_gui.statistics import layer_statistics

HALF = {"method": "l1_unstructured", "amount": 0.5}
ROWS = {"method": "ln_structured", "amount": 2, "dim": 0, "targets": ["v"]}


def _tensors():
    random = torch.Generator().manual_seed(0)
    return {name: torch.randn(8, 6, generator=random) for name in "vw"}


def _summarize(left, right, before=None, name="w", wanted=lambda _: True, reference=None):
    return summarize(name, left, right, reference or right, before, wanted, Monitor())


def _share(resolution, *names):
    pairs = [(resolution.checkpoint.read(n).double() ** 2, resolution.mask(n)) for n in names]
    return float(sum(e[kept].sum() for e, kept in pairs) / sum(e.sum() for e, _ in pairs))


def test_both_sides_are_summarized(resolved):
    left, right = resolved(HALF, **_tensors()), resolved(HALF, ROWS, **_tensors())
    found = _summarize(left, right, name="v")
    for side, resolution in ((found.left, left), (found.right, right)):
        assert (side.parameter.pruned, side.parameter.total) == resolution.counts["v"]
        assert (side.everything.pruned, side.everything.total) == resolution.total
        assert side.parameter.kept_energy == pytest.approx(_share(resolution, "v"))
        assert side.everything.kept_energy == pytest.approx(_share(resolution, "v", "w"))
        worst = min("vw", key=lambda name: _share(resolution, name))
        assert side.worst == (worst, pytest.approx(_share(resolution, worst)))
    assert found.overlap.name == "v"
    assert found.overlap.left == 0
    assert found.is_complete


def test_a_state_that_prunes_nothing_has_no_worst_layer(resolved):
    found = _summarize(resolved(**_tensors()), resolved(HALF, **_tensors()))
    assert found.left.worst is None
    assert found.left.everything.kept_energy == 1


def test_only_parameters_of_both_sides_are_summarized(resolved):
    found = _summarize(resolved(v=_tensors()["v"]), resolved(HALF, **_tensors()))
    for side in (found.left, found.right):
        assert side.parameter is None
        assert side.everything.total == 48
    assert found.overlap is None


def test_the_zeros_of_another_checkpoint_count_as_lost_energy_of_the_open_one(resolved):
    tensors = _tensors()
    pruned = {**tensors, "v": tensors["v"].clone(), "x": torch.ones(3)}
    pruned["v"][:4] = 0
    opened, other = resolved(**tensors), resolved(start="zeros", **pruned)
    found = _summarize(opened, other, reference=opened, name="v")
    lost = float((tensors["v"][:4].double() ** 2).sum() / (tensors["v"].double() ** 2).sum())
    assert found.right.parameter.kept_energy == pytest.approx(1 - lost)
    assert found.right.worst == ("v", pytest.approx(1 - lost))
    assert found.right.everything.total == 96  # without x, which the open checkpoint has not
    assert found.left.everything.kept_energy == 1


def test_energies_that_are_not_computed_yet_are_unknown_and_follow(resolved):
    left, right = resolved(HALF, **_tensors()), resolved(ROWS, **_tensors())
    first = _summarize(left, right, wanted=lambda _: False)
    assert not first.is_complete
    assert first.left.parameter.kept_energy is None
    assert first.left.everything.kept_energy is None
    assert first.left.worst is None
    assert first.left.parameter.pruned == 24
    assert _summarize(left, right, first).is_complete


def test_weights_are_read_once_for_two_states_of_one_file(resolved, monkeypatch):
    whole = resolved(HALF, ROWS, **_tensors())
    read, measure_small = [], layer_statistics._measure_small

    def measure(task, monitor):
        read.append(len(task.infos))
        return measure_small(task, monitor)

    monkeypatch.setattr(layer_statistics, "_measure_small", measure)
    found = _summarize(whole, whole)
    assert read == [2]
    _summarize(whole, whole, found, name="v")
    assert read == [2]


def test_a_parameter_without_energy_has_an_undefined_share(resolved):
    left = resolved(w=torch.zeros(4, 4))
    found = _summarize(left, left)
    assert np.isnan(found.left.parameter.kept_energy)
    assert found.left.worst is None
