import math

import pytest
import torch
from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QComboBox
from safetensors.torch import save_file
from view_page import text

from prune_gui import language
from prune_gui.gui.views.bars import bar_view
from prune_gui.gui.views.norms.view import NormBox, NormsView
from prune_gui.raster.colours import LIGHT


@pytest.fixture
def norms(bench, checkpoint, shown):
    view = shown(NormsView(bench))
    bench.open_and_choose(checkpoint, "fc.weight")
    return view


def _combos(view):
    return view.findChildren(QComboBox)


def test_each_dimension_can_be_chosen_by_name(norms, bench):
    dims, _ = _combos(norms)
    assert [dims.itemText(i) for i in range(dims.count())] == [
        "dim 0: output channel (8)",
        "dim 1: input channel (6)",
    ]
    dims.setCurrentIndex(1)
    bench.until_idle()
    weights = bench.session.checkpoint.read("fc.weight")
    expected = weights.norm(dim=0)
    assert norms._row.measured.norms == pytest.approx(expected.numpy())
    assert norms._plot.view.viewRange()[0] == pytest.approx([-0.5, 5.5])


@pytest.mark.parametrize(
    ("typed", "order", "written"),
    [
        ("0,5", 0.5, "0,5"),
        ("-inf", -math.inf, "-inf: smallest |w|"),
        ("3", 3, "3"),
        ("-1", -1, "-1"),
        ("nan", 2, "2: Euclidean"),
    ],
)
def test_any_norm_order_can_be_typed_in_the_locale(qtbot, monkeypatch, typed, order, written):
    monkeypatch.setattr(language._numbers, "separators", str.maketrans(",.", ".,"))
    box = NormBox()
    qtbot.addWidget(box)
    box.setLocale(QLocale("de_DE"))
    box.lineEdit().selectAll()
    qtbot.keyClicks(box.lineEdit(), typed)
    qtbot.keyClick(box.lineEdit(), Qt.Key.Key_Return)
    assert (box.order, box.currentText()) == (order, written)


@pytest.mark.parametrize(("index", "n"), [(2, 1), (5, float("inf"))])
def test_a_common_norm_order_can_be_chosen(norms, bench, index, n):
    _, orders = _combos(norms)
    orders.setCurrentIndex(index)
    bench.until_idle()
    weights = bench.session.checkpoint.read("fc.weight")
    assert norms._row.measured.norms == pytest.approx(weights.norm(p=n, dim=1).numpy())
    assert norms._plot.plotItem.getAxis("left").labelText.startswith(f"{n:g}-norm")


def test_the_channel_under_the_cursor_is_described(norms, bench, hand):
    bench.add(bench.step("ln_structured", amount=1))
    channel = int(norms._row.measured.norms.argmin())
    hand.hover(norms._plot, hand.point(norms._plot, channel, 0.1))
    described = text(norms, "Channel")
    assert described.startswith(f"channel {channel}: norm ")
    assert ", kept 0, 6 of 6" in described
    assert "6 of 6 pruned (100.0 %), all by step 1: Ln structured, dead" in described


def test_sorted_channels_keep_their_indices(norms, bench, hand):
    norms._sorted.click()
    bench.until_idle()
    smallest = int(norms._row.measured.norms.argmin())
    hand.hover(norms._plot, hand.point(norms._plot, 0, 0.1))
    assert text(norms, "Channel").startswith(f"channel {smallest}:")
    assert "smallest first" in norms._plot.plotItem.getAxis("bottom").labelText


def test_dead_channels_are_marked_and_counted(norms, bench, share_of):
    assert share_of(norms, LIGHT.warning) == 0
    bench.add(bench.step("ln_structured", amount=3))
    assert share_of(norms, LIGHT.warning) > 0.001
    assert "3 dead" in text(norms, "Dead").replace("&nbsp;", " ")


def test_channels_share_bars_until_the_user_zooms_in(norms, bench, monkeypatch):
    monkeypatch.setattr(bar_view, "MAX_BARS", 3)
    bench.add(bench.step(amount=0.5))
    assert norms._row.bars.edges.tolist() == [0, 2, 5, 8]
    assert "maximum of 3 channels" in norms.legend().replace("&nbsp;", " ")
    norms._plot.setXRange(3.6, 6.4, padding=0)
    bench.until_idle()
    assert norms._row.bars.edges.tolist() == [4, 5, 6, 7]
    assert "largest" not in norms.legend()


def test_another_parameter_is_shown_whole(norms, bench):
    norms._plot.setXRange(0, 4, padding=0)
    bench.until_idle()
    bench.choose("other.weight")
    bench.until_idle()
    assert norms._plot.view.viewRange()[0] == pytest.approx([-0.5, 7.5])


def test_non_finite_norms_are_marked_and_counted(norms, bench, hand, share_of):
    assert share_of(norms._plot, LIGHT.warning) == 0
    bench.choose("odd.weight")
    bench.until_idle()
    assert share_of(norms._plot, LIGHT.warning) > 0.3
    assert "2 NaN or infinite" in text(norms, "Dead").replace("&nbsp;", " ")
    hand.hover(norms._plot, hand.point(norms._plot, 0, 0.5))
    assert "norm nan" in text(norms, "Channel")


def test_buttons_wrap_below_the_boxes_in_a_narrow_view(norms, qtbot):
    box, button_bar = norms._dim_box, norms._selection_bar
    for width, below in ((1200, False), (460, True)):
        norms.resize(width, 500)
        qtbot.waitUntil(lambda below=below: (button_bar.y() >= box.height()) is below)
        assert box.width() >= box.sizeHint().width()


def test_a_bar_shows_the_norm_of_the_kept_weights_within_that_of_all(norms, bench):
    bench.add(bench.step(amount=0.5), bench.step(amount=0.2))
    weights = bench.session.checkpoint.read("fc.weight") * bench.found().resolution.mask(
        "fc.weight"
    )
    assert norms._row.bars.tops[1] == pytest.approx(weights.norm(dim=1).numpy())
    assert "norm² = kept² + pruned²" in norms.legend().replace("&nbsp;", " ")
    assert norms.table().headers[:3] == ("channel", "2-norm", "kept")


def test_the_draft_scores_of_pruned_channels_are_light(norms, bench):
    bench.draft_step(bench.step("ln_structured", amount=3, n=2, dim=0))
    measured = norms._row.measured
    assert sorted(measured.parts[0] == 0) == [False] * 5 + [True] * 3
    assert norms._row.bars.tops[-1] == pytest.approx(measured.norms)


def test_a_channel_beyond_the_axis_is_counted_unless_the_full_range_is_shown(
    norms, bench, tmp_path
):
    weights = torch.rand(200, 4, generator=torch.Generator().manual_seed(0)) + 1
    weights[7] *= 100
    save_file({"fc.weight": weights}, tmp_path / "outlier.safetensors")
    bench.open_and_choose(tmp_path / "outlier.safetensors", "fc.weight")
    mark, (_, top) = norms._plot._overflow, norms._plot.view.viewRange()[1]
    assert top < 5
    assert mark.toPlainText() == f"▴ 1 beyond, up to {float(weights[7].norm()):.3g}"
    norms._full_range_box.click()
    bench.until_idle()
    assert norms._plot.view.viewRange()[1][1] > 100
    assert not mark.isVisible()


def test_a_limited_parameter_shows_its_own_cut_and_that_of_all_targets(norms, bench, tmp_path):
    weights = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    save_file({"fc.weight": weights, "other.weight": weights * 1.5}, tmp_path / "two.safetensors")
    bench.open_and_choose(tmp_path / "two.safetensors", "fc.weight")
    step = {"amount": 4, "n": 2, "dim": 0, "scope": "global", "targets": ["*"]}
    plot = norms._plot
    bench.draft_step(bench.step("ln_structured", **step))
    assert not plot._own_cut.isVisible()
    bench.draft_step(bench.step("ln_structured", **step, max_sparsity=0.25))
    assert plot._own_cut.isVisible()
    assert plot._own_cut.value() < plot._cut.value()
    assert plot._own_cut.label.format == f"draft, limited here: up to {plot._own_cut.value():.4g}"
    assert plot._cut.label.format == f"draft, all targets: up to {plot._cut.value():.4g}"
