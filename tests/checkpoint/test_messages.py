"""The messages of checkpoints: complete translations, and names with any characters."""

import json

import pytest
from foreign import foreign, is_foreign
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.parameters import parameters
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.errors import CheckpointError
from prune_gui.language import tr

pytestmark = pytest.mark.usefixtures("foreign_language")

NAMES = st.text(st.sampled_from("{}!:,a0.\\'%"), min_size=1, max_size=12)
"""Names of tensors that look like messages with format fields."""


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
