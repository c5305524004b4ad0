import math

import numpy as np

from prune_gui.session.sweep import SweepRow
from prune_gui.session.sweep_curve import sweep_curve

ROWS = (
    SweepRow(0.5, 50, 100, 0.9, 0.8, 0.6, "b"),
    SweepRow(10**9, error="too many"),
    SweepRow(0.1, 10, 100, 0.99, 0.98, 0.96, "a"),
    SweepRow(0.3, 30, 100),
)


def test_points_are_ordered_by_sparsity_and_rows_with_an_error_have_none():
    curve = sweep_curve(ROWS)
    assert curve.rows == (2, 3, 0)
    assert curve.sparsity.tolist() == [10, 30, 50]
    np.testing.assert_allclose(curve.targets, [98, math.nan, 80])
    np.testing.assert_allclose(curve.worst, [96, math.nan, 60])
    assert curve.lowest == 60
    assert [curve.nearest(sparsity) for sparsity in (-5, 19, 21, 99)] == [0, 0, 1, 2]


def test_no_rows_have_no_point():
    curve = sweep_curve([])
    assert (len(curve), curve.lowest, curve.nearest(5)) == (0, 100, None)
