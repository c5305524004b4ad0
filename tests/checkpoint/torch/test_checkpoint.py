import math
import struct
import zipfile

import pytest
import safetensors.torch
import torch
import torch.nn.utils.prune
from corpus_forms import archive, compress, dictionary, tensor
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.torch import storages
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve

FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}


@pytest.fixture(params=FORMATS)
def options(request) -> dict[str, bool]:
    return FORMATS[request.param]


def test_every_dtype_reads_as_torch_reads_it(saved, every_dtype, options):
    if options:  # torch writes 8-bit floats to legacy files but cannot read them
        every_dtype = {key: value for key, value in every_dtype.items() if "float8" not in key}
    path = saved(every_dtype, **options)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.format == "torch"
        assert checkpoint.keys == tuple(every_dtype)
        for name, tensor in every_dtype.items():
            read = checkpoint.read(name)
            assert f"torch.{checkpoint.tensors[name].dtype}" == str(tensor.dtype) == str(read.dtype)
            assert torch.equal(read, tensor)


def test_values_in_the_other_byte_order_are_read_correctly(tmp_path):
    path = archive(dictionary(a=tensor()), {"data/0": struct.pack(">4f", 1, 2, 3, 4)}, order=b"big")
    with open_checkpoint(path(tmp_path)) as checkpoint:
        assert checkpoint.read("a").tolist() == [1, 2, 3, 4]


def test_the_state_dict_is_found_in_nested_dictionaries(saved, options):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    content = {
        "epoch": 3,
        "best": torch.tensor(0.5),
        "optimizer": optimizer.state_dict(),
        "module": {"state_dict": model.state_dict(), "names": ["a"]},
    }
    with open_checkpoint(saved(content, **options)) as checkpoint:
        assert checkpoint.root == ("module", "state_dict")
        assert list(checkpoint.tensors) == ["weight", "bias"]
        (warning,) = checkpoint.warnings
        assert "the top level" in warning


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_state_dict_in_a_list_is_written_in_its_place(saved, tmp_path, kind, options):
    other = {"w": torch.zeros(1)}
    content = kind([other, {"net": {"w": torch.ones(2), "b": torch.ones(2)}}])
    with open_checkpoint(saved(content, **options)) as checkpoint:
        assert checkpoint.candidates == ("0", "1.net")
        assert checkpoint.root == (1, "net")
        export(resolve(Recipe(), checkpoint), tmp_path / "out.pt")
    written = torch.load(tmp_path / "out.pt", weights_only=True)
    assert type(written) is kind
    assert written[0]["w"].tolist() == [0]
    assert written[1]["net"]["w"].tolist() == [1, 1]
    with open_checkpoint(tmp_path / "out.pt") as again:
        assert again.root == (1, "net")


def test_a_bare_tensor_is_one_parameter_and_written_without_a_name(saved, tmp_path, options):
    with open_checkpoint(saved(torch.ones(2, 2), **options)) as checkpoint:
        assert list(checkpoint.tensors) == ["weight"]
        export(resolve(Recipe(), checkpoint), tmp_path / "out.pt")
    assert torch.load(tmp_path / "out.pt", weights_only=True).tolist() == [[1, 1], [1, 1]]


def test_any_of_several_state_dicts_can_be_opened_by_its_name(saved, options):
    states = {name: {"w": torch.full((2,), value)} for name, value in (("ema", 2.0), ("old", 3.0))}
    path = saved({"model": {"w": torch.ones(2), "b": torch.ones(1)}, "best": states}, **options)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.candidates == ("model", "best.ema", "best.old")
        assert checkpoint.state_dict == "model"
        (warning,) = checkpoint.warnings
        assert all(name in warning for name in ("'model'", "'best.ema'", "'best.old'", "--state"))
    with open_checkpoint(path, "best.old") as checkpoint:
        assert checkpoint.root == ("best", "old")
        assert checkpoint.read("w").tolist() == [3, 3]
    with pytest.raises(CheckpointError, match=r"no state dict 'best'.*'best\.ema'"):
        open_checkpoint(path, "best")
    path = saved({"model": {"w": torch.ones(2), "b": torch.ones(1)}, "best": torch.ones(1)})
    with open_checkpoint(path, ".") as checkpoint:  # the top level
        assert list(checkpoint.tensors) == ["best"]


def test_a_single_state_dict_is_the_only_candidate(saved, tmp_path):
    with open_checkpoint(saved({"w": torch.ones(2)})) as checkpoint:
        assert checkpoint.candidates == (".",)
        assert checkpoint.warnings == ()
    safetensors.torch.save_file({"w": torch.ones(2)}, tmp_path / "m.safetensors")
    with pytest.raises(CheckpointError, match="no state dicts to choose from"):
        open_checkpoint(tmp_path / "m.safetensors", "w")


def test_cycles_and_deep_nesting_are_harmless(saved):
    content: dict[str, object] = {"a": torch.ones(2), "version": 3, "b": None}
    content["self"] = content
    deep = content
    for _ in range(200):
        deep["next"] = {"again": content}
        deep = deep["next"]
    with open_checkpoint(saved(content)) as checkpoint:
        assert list(checkpoint.tensors) == ["a"]


def test_a_pruned_module_is_one_parameter_with_its_mask(saved, options):
    model = torch.nn.Linear(4, 2)
    torch.nn.utils.prune.l1_unstructured(model, "weight", 3)
    with open_checkpoint(saved(model.state_dict(), **options)) as checkpoint:
        assert list(checkpoint.tensors) == ["bias", "weight"]
        assert torch.equal(checkpoint.read("weight"), model.weight_orig)
        assert torch.equal(checkpoint.read_mask("weight"), model.weight_mask.bool())
    mask = torch.tensor([True, False])
    with open_checkpoint(saved({"w_orig": torch.ones(2), "w_mask": mask})) as checkpoint:
        assert torch.equal(checkpoint.read_mask("w"), mask)


@pytest.mark.filterwarnings("ignore:.*quantiz.*", "ignore:.*ypedStorage.*")
def test_special_tensors_are_shown_and_not_prunable(saved):
    state = {
        "plain": torch.ones(2),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "sparse": torch.eye(3).to_sparse(),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "meta": torch.ones(2, device="meta"),
        "expanded": torch.ones(1).expand(1000),
        "channels_last": torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }
    with open_checkpoint(saved(state)) as checkpoint:
        reasons = {name: info.not_prunable for name, info in checkpoint.tensors.items()}
    assert reasons == {
        "plain": None,
        "parameter": None,
        "sparse": "sparse",
        "quantized": "quantized",
        "meta": "without values",
        "expanded": "repeated view",
        "channels_last": None,
    }


def test_names_are_not_decoded_and_damaged_text_causes_no_warnings(tmp_path):
    opcodes = dictionary(a=tensor(), b=b"ctorch\nSi\\x7ae\n", c=b"S'\\o'\n")
    with open_checkpoint(archive(opcodes)(tmp_path)) as checkpoint:
        assert checkpoint.foreign == ("torch.Si\\x7ae",)


@pytest.mark.parametrize("record", [b"{", b"[]", b'{"root": [0.5], "metadata": {}}', b"[" * 99_999])
def test_an_invalid_metadata_record_is_ignored_with_a_warning(saved, record):
    path = saved({"a": torch.ones(1)})
    with zipfile.ZipFile(path, "a") as records:
        records.writestr("model/prune_gui.json", record)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.metadata == {}
        (warning,) = checkpoint.warnings
        assert "prune_gui.json" in warning


@pytest.mark.parametrize("packing", ["legacy", "deflated"])
def test_a_file_that_cannot_be_mapped_is_refused_if_memory_is_short(tmp_path, free_memory, packing):
    path, zipped = tmp_path / "model.pt", packing == "deflated"
    torch.save({"weight": torch.randn(1000)}, path, _use_new_zipfile_serialization=zipped)
    if zipped:
        free_memory(0)
        open_checkpoint(path).close()  # it can be mapped
        compress(path)
    free_memory(3000)
    with pytest.raises(CheckpointError, match=r"model\.pt .* requires 4\S* kB .*, and only 3"):
        open_checkpoint(path)
    free_memory(5000)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.tensors["weight"].numel == 1000


def views(buffer: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "all": buffer,
        "turned": buffer.t(),
        "rows": buffer[1:3],
        "columns": buffer[:, :2],
        "even": buffer.view(-1)[::2],
    }


@pytest.mark.parametrize("other", ["turned", "rows", "columns", "even"])
def test_views_that_share_elements_are_not_prunable_with_the_other_name_as_reason(saved, other):
    found = views(torch.arange(24.0).view(6, 4))
    with open_checkpoint(
        saved({"a": found["all"], "b": found[other], "c": torch.ones(2)})
    ) as opened:
        reasons = {name: info.not_prunable for name, info in opened.tensors.items()}
        assert torch.equal(opened.read("b"), found[other])
    assert reasons == {"a": "shares memory with b", "b": "shares memory with a", "c": None}
    assert len(opened.warnings) == 2
    assert all("'a'" in warning and "'b'" in warning for warning in opened.warnings)


def test_tied_tensors_that_overlap_a_third_are_tied_and_not_pruned(saved):
    weight = torch.ones(4, 3)
    with open_checkpoint(saved({"a": weight, "b": weight, "c": weight[:2]})) as opened:
        assert list(opened.tensors) == ["a", "c"]
        assert opened.tensors["a"].aliases == ("b",)
        assert opened.tensors["a"].not_prunable == "shares memory with c"


def test_many_views_that_share_an_element_give_few_remarks(saved):
    weight = torch.ones(50)
    with open_checkpoint(saved({f"w{i}": weight[:i] for i in range(1, 50)})) as opened:
        assert len(opened.warnings) == 6
        assert "44 more" in opened.warnings[-1]


def test_beyond_the_limit_of_comparisons_interleaved_views_count_as_overlapping(monkeypatch):
    buffer = torch.zeros(6, 40)
    columns = {f"c{i}": buffer[:, i] for i in range(40)}
    assert storages.overlapping(columns) == {}
    bits = torch.zeros(8, dtype=torch.int32)
    of_dtypes = {"a": bits.view(torch.float32)[:5], "b": bits[4:], "c": bits[:0]}
    assert storages.overlapping(of_dtypes) == {"a": "b", "b": "a"}
    monkeypatch.setattr(storages, "MAX_COMPARISONS", 100)
    assert len(storages.overlapping(columns)) > 20


sizes = st.lists(st.integers(1, 3), min_size=1, max_size=3)
view_strategy = st.tuples(
    sizes, st.lists(st.integers(1, 5), min_size=3, max_size=3), st.integers(0, 12)
)


@given(st.lists(view_strategy, min_size=2, max_size=5))
def test_exactly_the_tensors_that_share_an_element_are_found(view_arguments):
    buffer = torch.zeros(64)
    tensors, elements = {}, {}
    for i, (shape, strides, offset) in enumerate(view_arguments):
        view = buffer.as_strided(shape, strides[: len(shape)], offset)
        indices = torch.arange(64).as_strided(shape, strides[: len(shape)], offset)
        if len(set(indices.reshape(-1).tolist())) == math.prod(shape):
            tensors[f"{i}"], elements[f"{i}"] = view, set(indices.reshape(-1).tolist())
    found = storages.overlapping(tensors)
    for name, own in elements.items():
        others = {other for other in elements if other != name and own & elements[other]}
        assert (found[name] in others) if others else (name not in found)
