from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from view_page import button, text

from prune_gui.gui.views.distribution.view import DistributionView
from prune_gui.raster.colours import LIGHT
from prune_gui.session.draft_request import CutRequest


@pytest.fixture
def distribution(bench, checkpoint, shown):
    widget = shown(DistributionView(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return widget


def choose(view, bench, of=None, how=None):
    for box, wanted in ((view._numbers_box, of), (view._display_box, how)):
        if wanted is not None:
            box.setCurrentIndex(box.findText(wanted))
    bench.until_idle()


def linear(view, bench):
    button(view, "Log a&xis").setChecked(False)
    bench.until_idle()


def _threshold(bench):
    subject = bench.found()
    weights = bench.session.checkpoint.read("fc.weight")
    return float(weights[~subject.resolution.mask("fc.weight")].abs().max())


def dragged(distribution, step=None, of="weight"):
    """Return a list that receives the numbers to which the cut of `step` is dragged."""
    values = []

    def note(request):
        assert request == CutRequest(of, request.value, step)
        values.append(request.value)

    distribution._workbench.draft_wanted.connect(note)
    return values


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("step", [None, 1])
def test_a_cut_can_be_dragged_by_either_line(distribution, bench, hand, sign, step):
    cut = bench.step(amount=0.5, targets=["fc.weight"])
    if step is None:
        bench.draft_step(cut)
    else:
        bench.add(cut)
    at, plot = _threshold(bench), distribution._plot
    values = dragged(distribution, step)
    hand.drag(plot, hand.point(plot, sign * at, 1), hand.point(plot, sign * (at + 0.5), 1))
    assert values[-1] == pytest.approx(at + 0.5, abs=0.05)
    assert values == pytest.approx(sorted(values))


def test_the_label_of_a_cut_changes_sides_when_the_plot_is_panned(distribution, bench):
    bench.add(bench.step(amount=0.1))
    cut = distribution._cuts[1]
    assert cut.label.pos().x() == pytest.approx(cut.at)
    distribution._plot.setXRange(cut.at - 0.9, cut.at + 0.1, padding=0)
    assert cut.label.pos().x() < cut.at - 0.1
    distribution._plot.setXRange(cut.at + 0.1, cut.at + 0.9, padding=0)
    assert not cut.label.isVisible()


def test_new_data_does_not_move_a_line_that_is_being_dragged(distribution, bench):
    bench.draft_step(bench.step(amount=0.5, targets=["fc.weight"]))
    line = distribution._cuts[1]._positive
    line.moving = True
    line.setValue(1.25)
    bench.draft_step(bench.step(amount=0.25, targets=["fc.weight"]))
    assert line.value() == 1.25
    line.moving = False
    bench.draft_step(bench.step(amount=0.5, targets=["fc.weight"]))
    assert line.value() == pytest.approx(_threshold(bench))


def test_the_bin_under_the_cursor_is_described(distribution, bench, hand):
    bench.add(bench.step(amount=1.0))
    result = distribution._data
    bin_index = int(result.counts.sum(0).argmax())
    middle = float(result.edges[bin_index : bin_index + 2].mean())
    hand.hover(distribution._plot, hand.point(distribution._plot, middle, 0.5))
    count = int(result.counts[:, bin_index].sum())
    assert f": {count:,} weights; step 1: L1 unstructured {count:,}" in text(distribution, "Bin")


def test_non_finite_weights_are_counted(distribution, bench):
    assert text(distribution, "Non-finite weights") == ""
    bench.choose("odd.weight")
    bench.until_idle()
    assert text(distribution, "Non-finite weights") == "⚠ 1 NaN and 1 infinite (in no bin)"


def test_bins_are_symmetric_or_span_minimum_to_maximum(distribution, bench):
    weights = bench.session.checkpoint.read("fc.weight")
    assert distribution._data.edges[0] == -distribution._data.edges[-1]
    button(distribution, "&Symmetric").click()
    bench.until_idle()
    edges = distribution._data.edges
    assert (edges[0], edges[-1]) == (float(weights.min()), float(weights.max()))


def test_the_zoom_stays_while_the_draft_changes(distribution, bench):
    distribution._plot.setXRange(-0.5, 0.5, padding=0)
    bench.draft_step(bench.step(amount=0.5))
    assert distribution._plot.view.viewRange()[0] == pytest.approx([-0.5, 0.5])


@pytest.fixture
def scores(bench, tmp_path):
    path = tmp_path / "scores.safetensors"
    values = torch.rand(8, 6, generator=torch.Generator().manual_seed(1)) + 1
    save_file({"fc.weight": values, "other.weight": values * 2}, path)
    return str(path), values


def numbers_offered(view):
    return [view._numbers_box.itemText(i) for i in range(view._numbers_box.count())]


def test_steps_with_their_own_scores_are_offered(distribution, bench, scores):
    assert numbers_offered(distribution) == ["Weights", "|Weights|"]
    bench.add(bench.step(amount=0.2), bench.step(amount=0.2, importance=scores[0]))
    bench.draft_step(bench.step("random_unstructured"))
    assert numbers_offered(distribution) == [
        "Weights",
        "|Weights|",
        "Scores of step 2",
        "Scores of the draft",
    ]
    choose(distribution, bench, "Scores of the draft")
    bench.draft_step(None)
    assert distribution._numbers_box.currentText() == "Weights"


def test_scores_have_a_histogram_and_a_cut_of_their_own(distribution, bench, scores):
    bench.draft_step(bench.step(amount=0.5, importance=scores[0]))
    assert distribution._cuts == {}
    assert "ranks by other scores" in distribution._legend.text()
    choose(distribution, bench, "Scores of the draft")
    linear(distribution, bench)
    picture, pruned = distribution._data, ~bench.found().resolution.mask("fc.weight")
    assert picture.cuts[1].value == pytest.approx(float(scores[1][pruned].max()))
    assert picture.counts.sum(1).tolist() == [24, 24]
    pruned_counts = np.histogram(scores[1][pruned].numpy(), picture.edges)[0]
    assert picture.counts[1].tolist() == pruned_counts.tolist()
    assert not distribution._cuts[1]._negative.isVisible()


def test_a_logarithmic_axis_reports_the_zeros_it_leaves_out(distribution, bench):
    bench.choose("fc.bias")
    choose(distribution, bench, "|Weights|")
    picture = distribution._data
    assert (picture.left_out, int(picture.counts.sum())) == (1, 7)
    assert "1 (12.5 %) at zero" in text(distribution, "Non-finite weights")
    assert distribution._plot.plotItem.getAxis("bottom").logMode
    linear(distribution, bench)
    assert distribution._data.left_out == 0
    assert not distribution._plot.plotItem.getAxis("bottom").logMode


@pytest.mark.parametrize("how", ["Counts", "Log counts", "Cumulative"])
def test_an_all_zero_parameter_is_shown(distribution, bench, tmp_path, how):
    save_file({"fc.weight": torch.zeros(8, 6)}, tmp_path / "zeros.safetensors")
    bench.open_and_choose(tmp_path / "zeros.safetensors", "fc.weight")
    bench.draft_step(bench.step(amount=0.5))
    choose(distribution, bench, "|Weights|", how)
    assert distribution._data.left_out == 48


def test_all_targets_of_a_global_step_can_be_shown_together(distribution, bench):
    together = button(distribution, "All targets")
    assert not together.isVisible()
    bench.draft_step(bench.step(amount=0.5, scope="global", targets=["fc.weight", "other.weight"]))
    assert together.isVisible()
    together.click()
    for of in ("Weights", "|Weights|"):
        choose(distribution, bench, of)
        picture = distribution._data
        assert (int(picture.counts.sum()), int(picture.others.sum())) == (48, 48)
        assert int((picture.counts + picture.others)[1].sum()) == 48
        mask = bench.found().resolution.mask("fc.weight")
        assert int(picture.counts[0].sum()) == int(mask.sum())
    bench.draft_step(bench.step(amount=0.5))
    assert not together.isVisible()
    assert distribution._data.names == ("fc.weight",)


def test_the_curve_describes_what_a_cut_at_the_cursor_prunes(distribution, bench, hand):
    choose(distribution, bench, how="Cumulative")
    linear(distribution, bench)
    at = float(bench.session.checkpoint.read("fc.weight").abs().median())
    hand.hover(distribution._plot, hand.point(distribution._plot, at, 50))
    described = text(distribution, "Bin")
    assert described.startswith("a cut at ")
    assert "of 48 weights and keeps" in described
    shades = {item.opts["pen"].color().name() for item in distribution._items}
    assert shades == {LIGHT.draft, LIGHT.curves[0]}  # the kept energy is no step
    assert all(f"color: {shade}" in text(distribution, "Legend") for shade in shades)


def test_a_cut_is_dragged_through_scores_and_on_a_logarithmic_axis(
    distribution, bench, scores, hand
):
    bench.draft_step(bench.step(amount=0.25, importance=scores[0]))
    choose(distribution, bench, "Scores of the draft")
    start, plot, values = distribution._data.cuts[1].value, distribution._plot, []
    values = dragged(distribution, of="score")
    hand.drag(plot, hand.point(plot, np.log10(start), 1.0), hand.point(plot, np.log10(1.75), 1.0))
    assert values[-1] == pytest.approx(1.75, abs=0.05)


@pytest.mark.parametrize(
    ("method", "parameters", "why"),
    [
        ("l1_unstructured", {"scope": "row"}, "each row by itself"),
        ("n_m", {"n": 1, "m": 2}, "each group by itself"),
        ("ln_structured", {}, "see Norms"),
        ("random_unstructured", {}, "random numbers"),
    ],
)
def test_the_legend_says_why_a_draft_has_no_cut(distribution, bench, method, parameters, why):
    bench.draft_step(bench.step(method, **parameters))
    assert distribution._cuts == {}
    assert why in distribution._legend.text()


def test_a_step_that_prunes_nothing_here_has_no_line_unless_it_is_the_draft(distribution, bench):
    nothing = bench.step(amount=0, targets=["fc.weight"])
    bench.draft_step(nothing)
    assert list(distribution._cuts) == [1]
    bench.draft_step(None)
    bench.add(nothing, bench.step(amount=0.5))
    assert list(distribution._cuts) == [2]


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
    assert _marks(distribution) == [f"◂ {below} beyond\ndown to -5", f"{above} beyond ▸\nup to 7"]
    button(distribution, "Full range").click()
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
    button(distribution, "Full range").click()
    assert distribution._plot.view.viewRange()[1][1] > sums[-1]
    assert not mark.isVisible()
    button(distribution, "Full range").click()
    choose(distribution, bench, how="Log counts")
    assert not mark.isVisible()
