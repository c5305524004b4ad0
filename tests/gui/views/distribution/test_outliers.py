"""Distribution of parameters with outliers or many zeros: axes, bins, marks and cuts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from distribution_controls import check_box, choose
from safetensors.torch import save_file


def _marks(view):
    return [mark.toPlainText() for mark in view._marks if mark.isVisible()]


@pytest.fixture
def outliers(distribution, bench, tmp_path):
    weights = torch.randn(100, 100, generator=torch.Generator().manual_seed(0)) / 10
    weights[0, 0], weights[0, 1] = 7.0, -5.0
    save_file({"fc.weight": weights}, tmp_path / "outliers.safetensors")
    bench.open_and_choose(tmp_path / "outliers.safetensors", "fc.weight")
    return weights


def test_outliers_are_counted_at_the_ends_of_the_axis_unless_the_full_range_is_shown(
    distribution, bench, outliers
):
    low, high = distribution._plot.view.viewRange()[0]
    assert -1 < low < -0.2
    assert 0.2 < high < 1
    below, above = int((outliers < low).sum()), int((outliers > high).sum())
    assert _marks(distribution) == [
        f"◂ {below} beyond\ndown to -5",
        f"{above} beyond ▸\nup to 7",
    ]
    check_box(distribution, "Full range").click()
    assert distribution._plot.view.viewRange()[0] == pytest.approx([-7, 7])
    assert _marks(distribution) == []


def test_bins_stay_narrow_despite_outliers_and_are_kept_while_the_draft_changes(
    distribution, bench, outliers
):
    picture = distribution._data
    assert np.diff(picture.edges).max() < 0.02
    bench.draft_step(bench.step(amount=0.5))
    assert distribution._data.same_axis(picture)
    counts = np.histogram(outliers.double().numpy(), picture.edges)[0]
    assert distribution._data.sums.tolist() == counts.tolist()


@pytest.mark.parametrize("numbers", ["Weights", "|Weights|"])
def test_a_limited_parameter_shows_its_own_cut_and_that_of_all_targets(
    distribution, bench, outliers, tmp_path, numbers
):
    tensors = {"fc.weight": outliers, "other.weight": outliers * 10}
    save_file(tensors, tmp_path / "two.safetensors")
    bench.open_and_choose(tmp_path / "two.safetensors", "fc.weight")
    choose(distribution, bench, numbers)
    limited = {"amount": 0.5, "scope": "global", "max_sparsity": 0.6, "targets": ["*"]}
    bench.draft_step(bench.step(**limited))
    [cut], [own] = distribution._cuts.values(), distribution._own_cuts.values()
    assert cut.label.toPlainText().startswith("draft, all targets: |w| ≤ ")
    assert own.label.toPlainText().startswith("draft, limited here: ")
    assert own.at < cut.at
    assert cut._positive.movable
    assert not own._positive.movable
    bench.choose("other.weight")
    bench.until_idle()
    assert distribution._own_cuts == {}


def test_the_label_of_a_threshold_excludes_the_threshold(distribution, bench):
    bench.draft_step(bench.step("threshold", value=0.5))
    assert distribution._cuts[1].label.toPlainText() == "draft: |w| < 0.5"
    bench.draft_step(bench.step(amount=0.5))
    assert distribution._cuts[1].label.toPlainText().startswith("draft: |w| ≤ ")


def test_the_zeros_of_a_pruned_parameter_do_not_flatten_the_others(
    distribution, bench, outliers, tmp_path
):
    zeroed = outliers.masked_fill(outliers.abs() < 0.07, 0.0)
    save_file({"fc.weight": zeroed}, tmp_path / "zeros.safetensors")
    bench.open_and_choose(tmp_path / "zeros.safetensors", "fc.weight")
    sums, mark = np.sort(distribution._data.sums), distribution._peak_mark
    assert sums[-2] < distribution._plot.view.viewRange()[1][1] < 2 * sums[-2]
    assert mark.toPlainText() == f"▴ {int((zeroed == 0).sum()):,} weights in this bin"
    check_box(distribution, "Full range").click()
    assert distribution._plot.view.viewRange()[1][1] > sums[-1]
    assert not mark.isVisible()
    check_box(distribution, "Full range").click()
    choose(distribution, bench, how="Log counts")
    assert not mark.isVisible()
