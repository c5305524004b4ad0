import math

import numpy as np
import pytest

from prune_gui.audit.rendering import colour_limit as module
from prune_gui.audit.rendering.colour_limit import colour_limit
from prune_gui.monitor import Monitor

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
