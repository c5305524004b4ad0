from prune_gui.checkpoint import TensorInfo
from prune_gui.statistics.dispatch import EARLY_READ_LIMIT_BYTES, read_budget


def test_counts_do_not_wait_for_a_large_parameter():
    large = TensorInfo("w", (EARLY_READ_LIMIT_BYTES,), "float32")
    assert not read_budget(counted=False)(large)
    assert read_budget(counted=True)(large)
    assert not read_budget(counted=True, seconds=0)(large)
