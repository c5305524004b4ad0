import json
import mmap
import struct
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from prune_gui.checkpoint import open_checkpoint, spans
from prune_gui.checkpoint.safetensors import format as safetensors_header
from prune_gui.checkpoint.source import Source
from prune_gui.errors import CheckpointError

ENTRY = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


def write(path: Path, header: object, body: bytes = b"ab") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    same_kind = a.dtype == b.dtype and a.shape == b.shape
    return same_kind and a.reshape(-1).view(torch.uint8).equal(b.reshape(-1).view(torch.uint8))


def test_every_dtype_reads_as_safetensors_reads_it(on_disk, every_dtype):
    checkpoint = on_disk(every_dtype, metadata={"format": "pt", "é": "ü"})
    assert checkpoint.format == "safetensors"
    assert checkpoint.metadata == {"format": "pt", "é": "ü"}
    assert sorted(checkpoint.tensors) == sorted(every_dtype)
    assert list(checkpoint.tensors) == list(checkpoint.keys)
    for name, tensor in every_dtype.items():
        info = checkpoint.tensors[name]
        assert info.shape == tuple(tensor.shape)
        assert f"torch.{info.dtype}" == str(tensor.dtype)
        assert same_bits(checkpoint.read(name), tensor)


def test_unaligned_tensors_are_read_correctly_and_aligned(tmp_path):
    body = b"x" + struct.pack("<3d", 1, 2, 3)
    header = {
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "b": {"dtype": "F64", "shape": [3], "data_offsets": [1, 25]},
    }
    with open_checkpoint(write(tmp_path / "m.safetensors", header, body)) as checkpoint:
        tensor = checkpoint.read("b")
    assert tensor.tolist() == [1, 2, 3]
    assert tensor.data_ptr() % 8 == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8])
@pytest.mark.parametrize("bad", [2.0, -1.0])
def test_a_mask_that_is_not_0_or_1_is_refused(on_disk, dtype, bad):
    mask = torch.tensor([1.0, bad, 0.0]).to(dtype)
    checkpoint = on_disk({"w_orig": torch.ones(3), "w_mask": mask})
    with pytest.raises(CheckpointError, match="'w_mask'"):
        checkpoint.read_mask("w")


MODEL = {
    "__metadata__": {"k": "v"},
    "a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
    "b": {"dtype": "U8", "shape": [], "data_offsets": [8, 9]},
    "c": {"dtype": "I64", "shape": [0], "data_offsets": [9, 9]},
}
TEXT = json.dumps(MODEL).encode()


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TEXT) + 7), st.sampled_from(b'\x00\xff 019-"[]{},:aefuFUI8\\')
        ),
        min_size=1,
        max_size=4,
    )
)
@example([(8, 0)])
def test_a_changed_header_is_refused_or_read_as_safetensors_reads_it(tmp_path, changes):
    octets = bytearray(struct.pack("<Q", len(TEXT)) + TEXT + bytes(range(9)))
    for position, value in changes:
        octets[position] = value
    path = tmp_path / "m.safetensors"
    path.write_bytes(octets)
    try:
        checkpoint = open_checkpoint(path)
    except CheckpointError:
        return
    with checkpoint, safetensors.safe_open(path, "pt") as other:
        assert set(checkpoint.keys) == set(other.keys())
        assert dict(checkpoint.metadata) == (other.metadata() or {})
        for key in checkpoint.keys:
            assert same_bits(checkpoint.read_key(key), other.get_tensor(key))


signs = st.text('a{}",:\\ ', max_size=6)
inner = st.dictionaries(signs, st.integers(0, 9) | signs | st.just({"a": {}}), max_size=3)


@given(st.dictionaries(signs, inner, max_size=8), st.integers(0, 40), st.data())
def test_the_parsed_header_does_not_depend_on_the_chunks(header, piece, data):
    spaced = data.draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps(header, separators=spaced, ensure_ascii=data.draw(st.booleans()))
    cut = data.draw(st.integers(0, len(text)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safetensors_header, "PARSE_CHUNK_CHARS", piece)
        assert list(safetensors_header.decode(text, {}).items()) == list(header.items())
        broken = text[:cut] + data.draw(signs) + text[cut + data.draw(st.integers(0, 2)) :]
        try:
            known = json.loads(broken)
        except json.JSONDecodeError:
            with pytest.raises(json.JSONDecodeError):
                safetensors_header.decode(broken, {})
        else:
            assert safetensors_header.decode(broken, {}) == known


def test_a_key_that_appears_in_two_chunks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(safetensors_header, "PARSE_CHUNK_CHARS", 1)
    entry = json.dumps(ENTRY)
    text = f'{{"a": {entry}, "b": {entry}, "a": {entry}}}'
    with pytest.raises(CheckpointError, match="'a' appears more than once"):
        open_checkpoint(write(tmp_path / "m.safetensors", text.encode()))


def test_views_of_small_tensors_equal_their_values_at_any_position(on_disk, monkeypatch):
    monkeypatch.setattr(spans, "WINDOW_BYTES", mmap.ALLOCATIONGRANULARITY)
    monkeypatch.setattr(spans, "SMALL_TENSOR_BYTES", 512)
    kinds = (torch.float32, torch.uint8, torch.bfloat16, torch.float64)
    random = torch.Generator().manual_seed(0)
    tensors = {
        f"{size}.{number}": torch.randn(size, generator=random).to(kinds[number % 4])
        for number in range(60)
        for size in (0, 1, 63, 64, 300)
    }
    checkpoint = on_disk(tensors)
    for name, tensor in tensors.items():
        assert same_bits(checkpoint.view(name), tensor)
    for names in (list(checkpoint.tensors), sorted(tensors), []):
        parts = checkpoint.views(names)
        together = b"".join(bytes(part.view(torch.uint8).tolist()) for part in parts)
        alone = (tensors[name].view(torch.uint8).tolist() for name in names)
        assert together == b"".join(map(bytes, alone))


def test_small_tensors_near_each_other_share_one_mapping(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    safetensors.torch.save_file({f"w{i}": torch.full((8,), float(i)) for i in range(100)}, path)
    mapped = []
    make = Source.pages
    monkeypatch.setattr(Source, "pages", lambda *span: (mapped.append(span), make(*span))[1])
    with open_checkpoint(path) as checkpoint:
        assert [float(checkpoint.view(f"w{i}")[0]) for i in range(100)] == list(range(100))
        assert len(mapped) == 1
        [everything] = checkpoint.views(checkpoint.tensors)
        assert everything.numel() == 800
    assert len(mapped) == 1


def test_fields_that_the_format_does_not_define_are_ignored_with_a_remark(tmp_path):
    entry = ENTRY | {"strides": [1.5], "zone": {"dtype": 1}}
    path = write(tmp_path / "m.safetensors", json.dumps({"a": entry}).encode())
    with open_checkpoint(path) as checkpoint, safetensors.safe_open(path, "pt") as other:
        assert same_bits(checkpoint.read("a"), other.get_tensor("a"))
        [remark] = checkpoint.warnings
        assert "such as 'strides'. They are not kept" in remark
