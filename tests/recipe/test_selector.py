"""Selecting parameters by globs."""

from __future__ import annotations

import pytest

from prune_gui.checkpoint import TensorInfo
from prune_gui.recipe import select

NAMES = [
    "encoder.layer.0.attention.self.query.weight",
    "encoder.layer.0.attention.output.LayerNorm.weight",
    "encoder.layer.10.output.dense.weight",
    "encoder.layer.10.output.dense.bias",
    "pooler.dense.weight",
]
TENSORS = [
    *(TensorInfo(name, (2, 2), "float32") for name in NAMES),
    TensorInfo("embed.weight", (2, 2), "float32", aliases=("head.weight",)),
]


def chosen(*patterns: str) -> list[str]:
    return [info.name for info in select(patterns, TENSORS)]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["encoder.layer.*.weight", "!*LayerNorm*"], [NAMES[0], NAMES[2]]),
        (["pooler.dense.weight"], [NAMES[4]]),
        (["!*.weight"], [NAMES[3]]),
        (["*.0.*", "pooler*"], [NAMES[0], NAMES[1], NAMES[4]]),
        (["encoder.layer.1?.*.bias"], [NAMES[3]]),
        (["nothing"], []),
        (["ENCODER*"], []),
        (["head.weight"], ["embed.weight"]),
        (["embed*", "!head.*"], []),
    ],
)
def test_globs_choose_by_the_whole_name_or_an_alias(patterns, names):
    assert chosen(*patterns) == names


def test_the_order_is_that_of_the_checkpoint():
    assert chosen("pooler*", "encoder*") == NAMES
