"""The messages of checkpoints: complete translations, and names with any characters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from foreign import foreign, is_foreign
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui.checkpoint import TensorInfo, TensorWriter, open_checkpoint, write_checkpoint
from prune_gui.checkpoint.parameters import RawTensor, parameters
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.write.atomic import replacing_folder
from prune_gui.checkpoint.write.writing import (
    KEEP_THE_FILES,
    check_nothing_special,
    check_target,
)
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor

pytestmark = pytest.mark.usefixtures("foreign_language")

NAMES = st.text(st.sampled_from("{}!:,a0.\\'%"), min_size=1, max_size=12)
"""Names of tensors that look like messages with format fields."""


def zeros(name: str, dtype: str = "float32") -> TensorWriter:
    return TensorWriter(name, dtype, (2,), lambda: iter([torch.zeros(2)]))


def write(out: Path, *entries: TensorWriter) -> None:
    write_checkpoint(out, entries, template=None, metadata={}, monitor=Monitor())


def write_folder(out: Path) -> None:
    with replacing_folder(out, nbytes=0, overwrite=False, kept_files=lambda _: ()):
        pass


REFUSED_TARGETS: Mapping[str, Callable[[Path], object]] = {
    "without a format": lambda folder: write(folder / "out.txt"),
    "in no folder": lambda folder: write(folder / "gone" / "out.pt"),
    "a folder": lambda folder: write(folder / "folder.pt"),
    "there already": lambda folder: write(folder / "there.pt"),
    "a file for shards": lambda folder: write_folder(folder / "there.pt"),
    "a folder in use": lambda folder: write_folder(folder / "folder.pt"),
    "of a dtype of torch": lambda folder: write(folder / "m.safetensors", zeros("w", "qint8")),
    "of a dtype of ours": lambda folder: write(folder / "m.pt", zeros("w", "float6_e2m3")),
    "a name of safetensors": lambda folder: write(folder / "m.safetensors", zeros("__metadata__")),
}


@pytest.mark.parametrize("kind", REFUSED_TARGETS)
def test_the_refusal_of_a_target_is_translated(tmp_path, kind):
    (tmp_path / "folder.pt").mkdir()
    (tmp_path / "folder.pt" / "inside").touch()
    (tmp_path / "there.pt").touch()
    with pytest.raises(CheckpointError) as refused:
        REFUSED_TARGETS[kind](tmp_path)
    assert is_foreign(str(refused.value))


def test_the_error_of_a_full_disk_is_translated(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1234))
    big = TensorWriter("w", "float32", (1000,), lambda: iter([torch.zeros(1000)]))
    with pytest.raises(CheckpointError) as refused:
        check_target(tmp_path / "m.safetensors", [big], template=None)
    expected = foreign(
        "{name} needs {needed:,} bytes, and {folder} has {free:,} free. Free disk space, or save "
        "to another folder."
    )
    assert str(refused.value) == expected.format(
        name="m.safetensors", needed=4000, folder=tmp_path, free=1234
    )


@pytest.mark.parametrize("refusal", [SAFETENSORS.special_refusal, KEEP_THE_FILES])
def test_the_refusal_of_a_special_tensor_is_translated(saved, refusal):
    state = {"s": torch.eye(3).to_sparse()}
    with open_checkpoint(saved(state)) as like, pytest.raises(CheckpointError) as refused:
        check_nothing_special(Path("out.pt"), (), like, refusal)
    expected = foreign(refusal).format(key="s", special=foreign("sparse"), name="out.pt")
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((0, 3), "float32"), ((3,), "int64"), ((3,), "bool"), ((3,), "complex64"), ((3,), "qint8"),
     ((4,), "float4_e2m1"), ((4,), "float8_e8m0fnu")],
)  # fmt: skip
def test_the_reason_why_a_parameter_is_not_prunable_is_translated(shape, dtype):
    reason = TensorInfo("x", shape, dtype).not_prunable
    assert tr(reason) == foreign(reason)


@given(NAMES)
def test_names_are_never_interpreted_as_format_fields(name):
    info = RawTensor((3, 4), "float32")
    raw = {
        f"{name}_orig": info,
        f"{name}_mask": RawTensor((5,), "bool"),
        f"{name}.w_g": RawTensor((3, 1), "float32"),
        f"{name}.w_v": info,
        f"{name}b": info._replace(shares=name),
    }
    found, (apart, overlap, *_) = parameters(raw)
    assert repr(f"{name}_orig") in apart
    assert repr(name) in overlap
    assert tr(found[f"{name}b"].not_prunable) == foreign("shares memory with {}").format(name)
    assert tr(found[f"{name}.w_v"].role).count(f"{name}.w") == 1
    assert is_foreign(apart)
    assert is_foreign(overlap)


@given(NAMES)
def test_the_refusal_of_a_header_contains_the_exact_name_of_the_tensor(tmp_path_factory, name):
    header = json.dumps({name: {"dtype": "X", "shape": [], "data_offsets": [0, 0]}}).encode()
    path = tmp_path_factory.mktemp("header") / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(CheckpointError) as refused:
        open_checkpoint(path)
    assert repr(name) in str(refused.value)
    assert is_foreign(str(refused.value))


def test_only_messages_that_are_shown_are_translated(monkeypatch):
    translated = []
    monkeypatch.setattr(
        "prune_gui.language._messages.gettext",
        lambda message: translated.append(message) or message,
    )
    special = dict.fromkeys(map(str, range(1000)), RawTensor((2,), "int8", special="sparse"))
    originals = {f"m.{i}_orig": RawTensor((2,), "int8") for i in range(1000)}
    masks = {f"m.{i}_mask": RawTensor((3,), "bool") for i in range(1000)}
    found, remarks = parameters({**special, **originals, **masks})
    assert all(info.not_prunable for info in found.values())
    assert len(translated) == len(remarks) == 6


def test_remarks_on_shards_are_translated(tmp_path):
    save_file({"a": torch.ones(2), "b": torch.ones(2)}, tmp_path / "model-1.safetensors")
    save_file({"c": torch.ones(2)}, tmp_path / "model-2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    weight_map = {"a": "model-1.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 7}, "weight_map": weight_map}))
    with open_checkpoint(index) as opened:
        assert len(opened.warnings) == 3
        assert all(map(is_foreign, opened.warnings))
    with open_checkpoint(tmp_path / "model-1.safetensors") as opened:
        expected = foreign("It is the only shard; open {index} for the whole checkpoint.")
        assert opened.warnings == (expected.format(index=index.name),)


def test_remarks_on_a_torch_file_are_translated(saved):
    shared = torch.ones(4)
    state = {"module.a": shared, "module.b": shared[1:], 1: torch.ones(2), 2: torch.ones(2)}
    path = saved({"model": state, "best": torch.ones(1), "ema": {"w": torch.ones(2)}})
    with open_checkpoint(path) as opened:
        assert len(opened.warnings) == 5
        assert all(map(is_foreign, opened.warnings))
