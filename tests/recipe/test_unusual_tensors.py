"""Tensors that cannot be pruned are listed, and every export copies them unchanged."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*quantiz.*", "ignore:.*ypedStorage.*", "ignore:.*[Ss]parse.*"
)
RECIPE = Recipe.from_yaml("steps: [{method: l1_unstructured, targets: ['*'], amount: 0.5}]")


def plain() -> dict[str, torch.Tensor]:
    return {
        "weight": torch.arange(1.0, 17).view(4, 4),
        "scalar": torch.tensor(1.5),
        "empty": torch.zeros(0, 4),
        "count": torch.tensor(7),
        "ids": torch.arange(5),
        "bits": torch.tensor([True, False]),
        "half": torch.ones(4, 4, dtype=torch.bfloat16),
        "eighth": torch.ones(8).to(torch.float8_e4m3fn),
        "complex": torch.ones(3, dtype=torch.complex64),
        "nan": torch.tensor([float("nan"), float("inf"), 1.0, -0.0]),
    }


def special() -> dict[str, torch.Tensor]:
    return {
        "sparse": torch.eye(3).to_sparse(),
        "rows": torch.eye(3).to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
        "meta": torch.ones(3, device="meta"),
        "expanded": torch.ones(1).expand(10),
        "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
        "turned": torch.arange(6.0).view(2, 3).t(),
    }


FORMS = ["finalized", "reparametrized", "masks"]
PRUNABLE = {"weight", "scalar", "half", "eighth", "nan", "turned"}


def as_before(new: torch.Tensor, old: torch.Tensor) -> bool:
    if old.is_meta:
        return new.is_meta and new.shape == old.shape
    if old.is_sparse or old.layout == torch.sparse_csr or old.is_quantized:
        dense = (one.dequantize() if one.is_quantized else one.to_dense() for one in (new, old))
        return torch.equal(*dense)
    return torch.equal(new, old)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", [".pt", ".safetensors"])
@pytest.mark.parametrize("source", [".pt", ".safetensors"])
def test_every_plain_dtype_is_written_in_every_form(tmp_path, source, target, form):
    path, out = tmp_path / f"in{source}", tmp_path / f"out{target}"
    tensors = plain()
    (torch.save if source == ".pt" else save_file)(tensors, path)
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        assert resolution.counts.keys() == PRUNABLE & tensors.keys()
        export(resolution, out, form)
    made = torch.load(out, weights_only=True) if target == ".pt" else load_file(out)
    if form == "masks":
        assert made.keys() == PRUNABLE & tensors.keys()
        return
    for name, old in tensors.items():
        if name not in PRUNABLE:
            assert torch.equal(made[name], old)
    suffix = "_orig" if form == "reparametrized" else ""
    assert made[f"weight{suffix}"].dtype == torch.float32


@pytest.mark.parametrize("form", FORMS)
def test_special_tensors_are_unchanged_in_a_torch_file(tmp_path, form):
    tensors = {**plain(), **special()}
    torch.save(tensors, tmp_path / "in.pt")
    with open_checkpoint(tmp_path / "in.pt") as checkpoint:
        assert list(checkpoint.tensors) == list(tensors)
        resolution = resolve(RECIPE, checkpoint)
        assert resolution.counts.keys() == PRUNABLE
        export(resolution, tmp_path / "out.pt", form)
    made = torch.load(tmp_path / "out.pt", weights_only=True)
    if form != "masks":
        for name, old in tensors.items():
            assert name in PRUNABLE or as_before(made[name], old)
    with open_checkpoint(tmp_path / "out.pt") as again:
        assert set(again.tensors) == (PRUNABLE if form == "masks" else tensors.keys())


def test_a_special_tensor_is_named_if_the_format_cannot_store_it(tmp_path):
    torch.save({**plain(), **special()}, tmp_path / "in.pt")
    with open_checkpoint(tmp_path / "in.pt") as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        with pytest.raises(CheckpointError, match=r"'sparse' \(sparse\) cannot be stored"):
            export(resolution, tmp_path / "out.safetensors")
        export(resolution, tmp_path / "masks.safetensors", "masks")
    assert load_file(tmp_path / "masks.safetensors").keys() == PRUNABLE
