from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from PySide6.QtWidgets import QCheckBox
from safetensors.torch import save_file
from view_page import text

from prune_gui.gui.views.maps.viewport import Viewport
from prune_gui.gui.views.weights import data as module
from prune_gui.gui.views.weights.data import (
    colour_limit,
)
from prune_gui.gui.views.weights.view import WeightsView
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import LIGHT, ramp


@pytest.fixture
def weights(bench, checkpoint, shown):
    view = shown(WeightsView(bench, Viewport()))
    bench.open_and_choose(checkpoint, "fc.weight")
    return view


def _pick(weights, bench, quantity):
    weights._quantity.setCurrentIndex(weights._quantity.findData(quantity))
    weights._choose()
    bench.until_idle()


def _pixels(weights):
    return weights._pipeline.shown.painted.pixels


def _expected(numbers, reach, *, signed):
    colours = ramp(LIGHT, signed=signed)
    return colours.table()[colours.indices(np.asarray(numbers, np.float64), reach)]


def _values(bench, name="fc.weight"):
    return bench.session.checkpoint.read(name).double().numpy()


def test_single_entries_have_the_colour_of_their_value(weights, bench):
    values = _values(bench)
    np.testing.assert_array_equal(
        _pixels(weights), _expected(values, np.abs(values).max(), signed=True)
    )
    assert "Value of each weight" in text(weights, "Legend")
    assert _limit(weights) == f"{np.abs(values).max():.3g}"


def test_the_legend_explains_cells_of_several_elements(weights, bench):
    weights._square.click()
    weights.canvas.setRange(xRange=(-4000, 4000), yRange=(-4000, 4000), padding=0)
    bench.until_idle()
    values = _values(bench)
    high, wide = weights._pipeline.shown.tile_grid.cell
    assert (high, wide) > (1, 1)
    first = values[:high, :wide]
    farthest = first.flat[np.abs(first).argmax()]
    np.testing.assert_array_equal(
        _pixels(weights)[0, 0], _expected(farthest, np.abs(values).max(), signed=True)
    )
    assert "a cell shows its value farthest from zero" in text(weights, "Legend")
    _pick(weights, bench, "size")
    np.testing.assert_array_equal(
        _pixels(weights)[0, 0], _expected(np.abs(first).mean(), np.abs(values).max(), signed=False)
    )
    assert "a cell shows the mean of its values" in text(weights, "Legend")


def test_margins_are_shown_relative_to_the_cut(weights, bench):
    bench.add(bench.step(amount=20))
    _pick(weights, bench, "margin")
    sizes, pruned = np.abs(_values(bench)), ~bench.shown.mask("fc.weight").numpy()
    margins = sizes - sizes[pruned].max()
    np.testing.assert_array_equal(
        _pixels(weights), _expected(margins, np.abs(margins).max(), signed=True)
    )


def test_the_last_ranking_step_is_shown_by_default(weights, bench):
    bench.add(bench.step(amount=20), bench.step("channels", dim=0, channels=[1]))
    bench.add(bench.step("ln_structured", amount=2, n=2, dim=0))
    _pick(weights, bench, "score")
    assert weights._step.isVisible()
    assert weights._step.currentData() == 3
    pruned_before = (
        ~bench.shown.mask("fc.weight").numpy() & (bench.shown.pruned_by("fc.weight") != 3).numpy()
    )
    blank = [int(LIGHT.grid[i : i + 2], 16) for i in (1, 3, 5)]
    np.testing.assert_array_equal((_pixels(weights)[..., :3] == blank).all(2), pruned_before)
    weights._step.setCurrentIndex(weights._step.findData(1))
    bench.until_idle()
    sizes = np.abs(_values(bench))
    np.testing.assert_array_equal(_pixels(weights), _expected(sizes, sizes.max(), signed=False))


def test_a_message_replaces_the_picture_while_no_step_ranks(weights, bench):
    _pick(weights, bench, "score")
    assert weights._reason.isVisible()
    assert "No step ranks fc.weight" in weights._reason.text()
    bench.draft_step(bench.step(amount=4))
    assert not weights._reason.isVisible()
    assert weights.canvas.isVisible()
    bench.draft_step(None)
    assert weights._reason.isVisible()
    _pick(weights, bench, "value")
    assert weights.canvas.isVisible()


def test_a_difference_to_another_file_is_shown(weights, bench, tmp_path):
    values = _values(bench)
    other = torch.from_numpy(values).float() + torch.eye(8, 6)
    path = tmp_path / "other.safetensors"
    save_file({"fc.weight": other, "other.weight": torch.ones(2, 2)}, path)
    weights.compare_with(path)
    bench.until_idle()
    expected = values - other.double().numpy()
    result = _pixels(weights)
    neutral = _expected(0.0, 1.0, signed=True)
    np.testing.assert_array_equal((result == neutral).all(2), np.abs(expected) < 0.5)
    bench.show("other.weight")
    assert "has shape [2, 2]" in weights._reason.text()
    assert weights._quantity.isVisible()


def test_non_finite_numbers_have_the_warning_colour(weights, bench):
    bench.show("odd.weight")
    warning = [int(LIGHT.warning[i : i + 2], 16) for i in (1, 3, 5)]
    odd = (_pixels(weights)[..., :3] == warning).all(2)
    assert odd.tolist() == [[False, True], [True, False], [False, False]]
    assert "NaN or infinite" in text(weights, "Legend")
    assert _limit(weights) == "2"


def _limit(weights):
    """Return the number at the end of the ramp in the legend."""
    return re.search(r"■</span>&nbsp;([^<&]+)&nbsp;&nbsp;", weights.legend())[1]


def _bars(weights):
    (_, heights), (widths, _) = (
        item.getData() for item in (weights.canvas.margins._columns, weights.canvas.margins._rows)
    )
    return heights[1:-1:2], widths[1:-1:2]


def test_the_margins_show_the_mean_size_of_rows_and_columns(weights, bench):
    sizes = np.abs(_values(bench))
    for result, axis in zip(_bars(weights), (0, 1), strict=True):
        np.testing.assert_allclose(result, sizes.mean(axis))
    above, beside = (title.toPlainText() for title in weights.canvas.margins._titles)
    assert above == f"Mean |w| of each column, from 0 to {sizes.mean(0).max():.3g}"
    assert beside == f"Mean |w| of each row, from 0 to {sizes.mean(1).max():.3g}"
    weights._profiles.box.click()
    assert not weights.canvas.margins._above.isVisible()
    bench.until_idle()


def test_outliers_do_not_fade_the_others_unless_the_full_range_is_shown(weights, bench, tmp_path):
    values = torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) - 0.5
    values[3, 4] = 90.0
    save_file({"fc.weight": values}, tmp_path / "outlier.safetensors")
    bench.open_and_choose(tmp_path / "outlier.safetensors", "fc.weight")
    limit = float(_limit(weights))
    assert 0.4 < limit <= 0.5
    assert "end colours: numbers up to 90" in text(weights, "Legend")
    [box] = [box for box in weights.findChildren(QCheckBox) if box.text() == "Full range"]
    box.click()
    bench.until_idle()
    assert _limit(weights) == "90"
    assert "end colours" not in text(weights, "Legend")
    np.testing.assert_array_equal(_pixels(weights), _expected(values.numpy(), 90.0, signed=True))


NONE = np.zeros(0, np.bool_)


def measure_of(numbers, defined=NONE):
    def measure(start, stop):
        return numbers[start:stop], defined[start:stop] if defined.size else NONE

    return measure


def test_outliers_do_not_move_the_end_of_the_scale():
    numbers = np.linspace(-1, 1, 5000, dtype=np.float32)
    assert colour_limit(measure_of(numbers), numbers.size, Monitor()) == 1
    numbers[[7, 900]] = 300, -math.inf
    assert colour_limit(measure_of(numbers), numbers.size, Monitor()) == pytest.approx(1, abs=0.01)


def test_only_defined_numbers_count():
    numbers = np.full(1000, 50.0)
    defined = np.zeros(1000, np.bool_)
    assert colour_limit(measure_of(numbers, defined), 1000, Monitor()) == 0
    numbers[::2], defined[::2] = 2.0, True
    assert colour_limit(measure_of(numbers, defined), 1000, Monitor()) == 2
    assert colour_limit(measure_of(numbers[:0]), 0, Monitor()) == 0


def test_a_large_parameter_is_sampled_from_start_to_end(monkeypatch):
    monkeypatch.setattr(module, "SAMPLED_SPANS", 8)
    monkeypatch.setattr(module, "SPAN_ELEMENTS", 16)
    numbers = np.arange(10_000.0)
    read = []

    def measure(start, stop):
        read.append((start, stop))
        return numbers[start:stop], NONE

    assert colour_limit(measure, numbers.size, Monitor()) == 9999
    assert len(read) == 8
    assert (read[0][0], read[-1][1]) == (0, 10_000)
