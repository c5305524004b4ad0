"""The overview of a report has a tile per matrix, up to a limit."""

from __future__ import annotations

import re

import torch

from prune_gui.report.overview import overview


def titles(picture: str) -> list[str]:
    return re.findall(r"<g><title>([^<]*)</title>", picture)


def test_every_matrix_has_a_tile_with_its_sparsity(report_on):
    half = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    tensors = {f"layer.{i}.{role}.weight": half for i in range(3) for role in ("up", "down")}
    tensors |= {"layer.0.up.bias": torch.zeros(2), "head.weight": torch.ones(2, 2)}
    [file] = report_on(tensors).files
    shown = titles(overview(file.layers))
    assert sorted(shown) == sorted(
        f"{name}: {'0.0' if name == 'head.weight' else '50.0'} % (2 x 2)"
        for name in tensors
        if not name.endswith("bias")
    )


def test_matrices_beyond_the_limit_are_counted(report_on):
    tensors = {f"layer.{i}.{role}.weight": torch.ones(2, 2) for i in range(9) for role in "ab"}
    [file] = report_on(tensors).files
    picture = overview(file.layers, max_tiles=5)
    assert len(titles(picture)) == 4
    assert "14 more matrices are left out" in picture
