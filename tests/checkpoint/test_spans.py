from __future__ import annotations

import pytest

from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.spans import SpanTensor, check_spans

RAW = RawTensor((2,), "float32")


def test_spans_may_be_equal_but_not_overlap_or_leave_the_file():
    check_spans({"a": SpanTensor(RAW, ((0, 8),)), "b": SpanTensor(RAW, ((0, 8),))}, 8)
    with pytest.raises(FalseClaimError, match="'b' are not where"):
        check_spans({"a": SpanTensor(RAW, ((0, 8),)), "b": SpanTensor(RAW, ((4, 12),))}, 12)
    with pytest.raises(FalseClaimError, match="'a' are not where"):
        check_spans({"a": SpanTensor(RAW, ((0, 8),))}, 7)
