from prune_gui.checkpoint import TensorInfo
from prune_gui.statistics import read_budget as module
from prune_gui.statistics.read_budget import EARLY_READ_LIMIT_BYTES, read_budget


def test_counts_do_not_wait_for_a_large_parameter(monkeypatch):
    large = TensorInfo("w", (EARLY_READ_LIMIT_BYTES,), "float32")
    assert not read_budget(counted=False)(large)
    assert read_budget(counted=True)(large)
    monkeypatch.setattr(module, "READ_SLICE_S", 0)
    assert not read_budget(counted=True)(large)
