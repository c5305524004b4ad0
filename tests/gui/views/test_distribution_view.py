import pytest
from PySide6.QtWidgets import QCheckBox, QLabel

from prune_gui.gui.views import DistributionView


@pytest.fixture
def distribution(bench, checkpoint, shown):
    made = shown(DistributionView(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return made


def _label(view, name):
    [label] = [
        label for label in view.findChildren(QLabel) if label.accessibleName().startswith(name)
    ]
    return label.text()


def _box(view, text):
    return next(box for box in view.findChildren(QCheckBox) if text in box.text())


def _threshold(bench):
    subject = bench.found()
    weights = bench.session.checkpoint.read("fc.weight")
    return float(weights[~subject.resolution.mask("fc.weight")].abs().max())


def test_the_cut_of_the_draft_can_be_dragged(distribution, bench, qtbot, hand):
    bench.draft_step(bench.step(amount=0.5, targets=["fc.weight"]))
    at, height = _threshold(bench), 1.0
    seen = []
    distribution.cut_dragged.connect(seen.append)
    hand.drag(
        distribution._plot,
        hand.point(distribution._plot, at, height),
        hand.point(distribution._plot, at + 0.5, height),
    )
    assert seen[-1] == pytest.approx(at + 0.5, abs=0.05)
    assert seen == pytest.approx(sorted(seen))


def test_the_negative_line_moves_the_same_cut(distribution, bench, hand):
    bench.draft_step(bench.step(amount=0.5, targets=["fc.weight"]))
    at = _threshold(bench)
    seen = []
    distribution.cut_dragged.connect(seen.append)
    hand.drag(
        distribution._plot,
        hand.point(distribution._plot, -at, 1),
        hand.point(distribution._plot, -at - 0.5, 1),
    )
    assert seen[-1] == pytest.approx(at + 0.5, abs=0.05)


def test_the_cut_of_a_step_stays_where_it_is(distribution, bench, hand):
    bench.add(bench.step(amount=0.5, targets=["fc.weight"]))
    at = _threshold(bench)
    seen = []
    distribution.cut_dragged.connect(seen.append)
    hand.drag(
        distribution._plot,
        hand.point(distribution._plot, at, 1),
        hand.point(distribution._plot, at + 0.5, 1),
    )
    assert list(distribution._cuts) == [1]
    assert seen == []


def test_a_step_without_a_cut_has_no_line(distribution, bench):
    bench.add(bench.step("random_unstructured"))
    assert distribution._cuts == {}
    bench.draft_step(bench.step(amount=0.5))
    assert list(distribution._cuts) == [2]
    bench.draft_step(None)
    assert distribution._cuts == {}


def test_new_figures_do_not_pull_a_line_out_of_the_hand(distribution, bench):
    bench.draft_step(bench.step(amount=0.5, targets=["fc.weight"]))
    line = distribution._cuts[1]._positive
    line.moving = True
    line.setValue(1.25)
    bench.draft_step(bench.step(amount=0.25, targets=["fc.weight"]))
    assert line.value() == 1.25
    line.moving = False
    bench.draft_step(bench.step(amount=0.5, targets=["fc.weight"]))
    assert line.value() == pytest.approx(_threshold(bench))


def test_the_cursor_tells_what_a_bin_holds(distribution, bench, hand):
    bench.add(bench.step(amount=1.0))
    found = distribution._histogram
    place = int(found.counts.sum(0).argmax())
    middle = float(found.edges[place : place + 2].mean())
    hand.hover(distribution._plot, hand.point(distribution._plot, middle, 0.5))
    count = int(found.counts[:, place].sum())
    assert f": {count:,} weights; step 1: L1 unstructured {count:,}" in _label(distribution, "Bin")


def test_weights_in_no_bin_are_counted(distribution, bench):
    assert _label(distribution, "Weights that") == ""
    bench.choose("odd.weight")
    bench.until_idle()
    assert _label(distribution, "Weights that") == "⚠ 1 NaN and 1 infinite (in no bin)"


def test_bins_are_symmetric_or_reach_from_the_least_to_the_greatest(distribution, bench):
    weights = bench.session.checkpoint.read("fc.weight")
    assert distribution._histogram.edges[0] == -distribution._histogram.edges[-1]
    _box(distribution, "Symmetric").click()
    bench.until_idle()
    edges = distribution._histogram.edges
    assert (edges[0], edges[-1]) == (float(weights.min()), float(weights.max()))


def test_logarithmic_counts_change_the_axis(distribution, bench):
    _box(distribution, "Logarithmic").click()
    bench.until_idle()
    axis = distribution._plot.plotItem.getAxis("left")
    assert axis.logMode
    assert "logarithmic" in axis.labelText


def test_the_zoom_stays_while_the_draft_changes(distribution, bench):
    distribution._plot.setXRange(-0.5, 0.5, padding=0)
    bench.draft_step(bench.step(amount=0.5))
    assert distribution._plot.view.viewRange()[0] == pytest.approx([-0.5, 0.5])
