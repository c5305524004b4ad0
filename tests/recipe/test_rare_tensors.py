"""Lists of tensors, tensors of subclasses, and tensors inside objects, in finalized torch files."""

import enum
import functools
import typing
import warnings
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from applied import applied, exported
from safetensors.torch import load_file, save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.sizes import sizes

HALF = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.5}


def rewritten(path: Path, out: Path, *, steps=(HALF,), form="finalized") -> tuple[list[str], str]:
    """Write a pruned file, and return the names of its tensors and the remarks on it."""
    with open_checkpoint(path) as checkpoint:
        recipe = Recipe.model_validate({"version": 1, "steps": steps})
        export(resolve(recipe, checkpoint), out, form, overwrite=True)
        return list(checkpoint.tensors), " ".join(checkpoint.warnings)


class Colour(enum.Enum):
    RED = 1


@dataclass
class Box:
    tensor: torch.Tensor


class Half(torch.Tensor):
    """A subclass with the same values."""


Pair = namedtuple("Pair", "first second")


class Distributed(torch.Tensor):
    """A subclass without values of its own, as DTensor and those of torchao; it has four rows."""

    @staticmethod
    def __new__(cls, local: torch.Tensor):
        return torch.Tensor._make_wrapper_subclass(cls, (4, 3), dtype=local.dtype, strides=(3, 1))

    def __init__(self, local: torch.Tensor) -> None:
        self._local_tensor = local

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(func)


def random(*shape: int) -> torch.Tensor:
    return torch.rand(*shape) + 1


CONTENTS: dict[str, tuple[Callable[[], object], list[str], str]] = {
    "a tuple": (lambda: (random(4, 3), random(8)), ["0", "1"], ""),
    "a list with other values": (lambda: [random(4, 3), "x", random(8)], ["0", "2"], ""),
    "a parameter in a list": (lambda: [torch.nn.Parameter(random(4, 3))], ["0"], ""),
    "a list in a dictionary": (lambda: {"n": 1, "weights": [random(4, 3)]}, ["0"], ""),
    "a list beside a state dict": (
        lambda: {"ema": [random(4, 3)], "model": {"w": random(4, 3)}},
        ["w"],
        "not shown: in 'ema'",
    ),
    "a named tuple": (lambda: {"pair": Pair(random(4, 3), random(8))}, ["0", "1"], ""),
    "an object beside a state dict": (
        lambda: {"box": [Box(random(3))], "model": {"w": random(4, 3)}},
        ["w"],
        "not shown: in 'box.0'",
    ),
    "a set beside a state dict": (
        lambda: {"rest": {random(3)}, 1: random(4), "w": random(4, 3)},
        ["w"],
        "2 tensors that are in no state dict are kept unchanged",
    ),
    "values that need code": (
        lambda: {
            "w": random(4, 3),
            "v": [torch.__version__, typing.Any, Colour.RED, functools.partial(max, 1), Box],
        },
        ["w"],
        "names code of",
    ),
    "a subclass with the same values": (lambda: {"w": random(4, 3).as_subclass(Half)}, ["w"], ""),
    "a distributed tensor": (lambda: {"w": Distributed(random(4, 3))}, ["w"], ""),
    "a part of a distributed tensor": (
        lambda: {"w": random(4, 3), "d": Distributed(random(2, 3))},
        ["w", "d"],
        "",
    ),
    "quantized": (
        lambda: {
            "w": random(4, 3),
            "q": torch.quantize_per_channel(
                random(2, 2), random(2), torch.zeros(2), 0, torch.qint8
            ),
        },
        ["w", "q"],
        "",
    ),
    "sparse rows": (lambda: {"w": random(4, 3), "s": torch.eye(4).to_sparse_csr()}, ["w", "s"], ""),
    "sparse blocks": (
        lambda: {"w": random(4, 3), "s": torch.eye(4).to_sparse_bsc((2, 2))},
        ["w", "s"],
        "",
    ),
    "complex halves": (
        lambda: {"w": random(4, 3), "c": random(4).to(torch.complex32)},
        ["w", "c"],
        "",
    ),
    "nested": (
        lambda: {"w": random(4, 3), "n": torch.nested.nested_tensor([random(2, 3), random(4, 3)])},
        ["w"],
        "1 tensor that is in no state dict is kept unchanged",
    ),
}


def loaded(path: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.load(path, weights_only=False)


def shown(value: object, root: str = "") -> dict[str, str]:
    """Return each tensor and other value in an object as text, by its path."""
    if isinstance(value, Distributed):
        return shown(value._local_tensor, root)
    if isinstance(value, Box):
        return shown(value.tensor, f"{root}.tensor")
    if isinstance(value, dict | list | tuple | set):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        inner = (shown(member, f"{root}.{key}") for key, member in members)
        return {root: type(value).__name__, **{k: v for each in inner for k, v in each.items()}}
    return {root: f"{type(value).__name__} {value}"}


LEGACY = {"_use_new_zipfile_serialization": False}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in CONTENTS),
        *((kind, LEGACY) for kind in CONTENTS if kind not in ("complex halves", "nested")),
    ],
)
def test_all_of_a_file_is_shown_or_counted_and_kept(tmp_path, kind, options):
    make, names, remark = CONTENTS[kind]
    path, out = tmp_path / "in.pt", tmp_path / "out.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(make(), path, **options)
    found, said = rewritten(path, out, steps=())
    assert found == names
    assert remark in said
    before = shown(loaded(path))
    assert shown(loaded(out)) == before
    rewritten(path, out)
    after = shown(loaded(out))
    assert after.keys() == before.keys()
    changed = {root.rpartition(".")[2] for root in before if after[root] != before[root]}
    assert changed <= set(names) - {"d", "q", "s", "c", "n"}
    assert changed


def test_moments_whose_values_need_code_are_refused_in_one_line(tmp_path):
    path = tmp_path / "in.pt"
    optimizer = {
        "state": {0: {"exp_avg": Distributed(random(2, 3))}},
        "param_groups": [{"params": [0]}],
    }
    torch.save({"model": {"w": random(4, 3)}, "optimizer": optimizer}, path)
    with pytest.raises(CheckpointError, match="the values of some need code to read"):
        exported(path, tmp_path / "out.pt", Recipe(steps=[HALF]), zero_moments=True)


def test_tensors_without_values_are_not_said_to_be_shared(on_disk, tmp_path):
    part = Distributed(random(2, 3))
    content = {"a": {"w": random(4, 3), "d": part}, "b": {"v": random(4), "d": part}}
    resolution = resolve(Recipe(), on_disk(content, "in.pt"))
    note = sizes(resolution, tmp_path / "out.pt")["finalized"].note
    assert "byte for byte" in note
    assert "same values" not in note


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
    with applied(path, RECIPE) as resolution:
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
def test_special_tensors_are_unchanged_in_a_torch_file(on_disk, tmp_path, form):
    tensors = {**plain(), **special()}
    checkpoint = on_disk(tensors, "in.pt")
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
