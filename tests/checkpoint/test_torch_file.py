from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from dataclasses import dataclass

import pytest
import torch
import torch.nn.utils.prune
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}


def refusal(path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.fixture(params=FORMATS)
def options(request) -> dict[str, bool]:
    return FORMATS[request.param]


def deflated(path) -> None:
    """Pack an archive anew, with all of its records compressed."""
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, octets in records.items():
            archive.writestr(name, octets)


def test_every_dtype_reads_as_torch_reads_it(saved, every_dtype, options):
    if options:  # torch writes 8-bit floats into legacy files, and cannot read them
        every_dtype = {key: value for key, value in every_dtype.items() if "float8" not in key}
    path = saved(every_dtype, **options)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.format == "torch"
        assert checkpoint.keys == tuple(every_dtype)
        for name, tensor in every_dtype.items():
            read = checkpoint.read(name)
            assert f"torch.{checkpoint.tensors[name].dtype}" == str(tensor.dtype) == str(read.dtype)
            assert torch.equal(read, tensor)


def test_a_deflated_archive_reads_right(saved, every_dtype):
    path = saved(every_dtype)
    deflated(path)
    with open_checkpoint(path) as checkpoint:
        assert all(torch.equal(checkpoint.read(name), every_dtype[name]) for name in every_dtype)


def test_a_write_to_what_was_read_never_reaches_the_file(saved, options):
    path = saved({"a": torch.ones(5000)}, **options)
    before = path.read_bytes()
    with open_checkpoint(path) as checkpoint:
        checkpoint.read("a").zero_()
    assert path.read_bytes() == before


def test_a_closed_checkpoint_reads_nothing_and_its_tensors_stay(saved, options):
    with open_checkpoint(saved({"a": torch.ones(5000)}, **options)) as checkpoint:
        tensor = checkpoint.read("a")
    assert tensor.sum() == 5000
    with pytest.raises(CheckpointError, match="closed"):
        checkpoint.read("a")


def test_the_state_dict_is_found_in_its_nest(saved, options):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    nest = {
        "epoch": 3,
        "best": torch.tensor(0.5),
        "optimizer": optimizer.state_dict(),
        "module": {"state_dict": model.state_dict(), "names": ["a"]},
    }
    with open_checkpoint(saved(nest, **options)) as checkpoint:
        assert checkpoint.root == ("module", "state_dict")
        assert list(checkpoint.tensors) == ["weight", "bias"]
        (warning,) = checkpoint.warnings
        assert "the top level" in warning


def test_cycles_and_depth_in_a_nest_do_no_harm(saved):
    nest: dict[str, object] = {"a": torch.ones(2)}
    nest["self"] = nest
    deep = nest
    for _ in range(200):
        deep["next"] = {"again": nest}
        deep = deep["next"]
    with open_checkpoint(saved(nest)) as checkpoint:
        assert list(checkpoint.tensors) == ["a"]


def test_values_that_are_not_tensors_are_not_shown(saved):
    with open_checkpoint(saved({"a": torch.ones(2), "version": 3, "b": None})) as checkpoint:
        assert list(checkpoint.tensors) == ["a"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (torch.ones(2), "single tensor"),
        ({"epoch": 1}, "no state dict"),
        ([torch.ones(2)], "no state dict"),
        ({"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": []}, "no state dict"),
    ],
)
def test_a_file_without_a_state_dict_is_refused(saved, content, words, options):
    assert words in refusal(saved(content, **options))


def test_tied_tensors_are_one_parameter(saved, options):
    weight = torch.rand(4, 3)
    state = {"emb": weight, "first": weight[:2], "head": weight, "turned": weight.t()}
    with open_checkpoint(saved(state, **options)) as checkpoint:
        assert list(checkpoint.tensors) == ["emb", "first", "turned"]
        assert checkpoint.tensors["emb"].aliases == ("head",)
        assert torch.equal(checkpoint.read("turned"), weight.t())


def test_a_pruned_module_is_one_parameter_with_its_mask(saved, options):
    model = torch.nn.Linear(4, 2)
    torch.nn.utils.prune.l1_unstructured(model, "weight", 3)
    with open_checkpoint(saved(model.state_dict(), **options)) as checkpoint:
        assert list(checkpoint.tensors) == ["bias", "weight"]
        assert torch.equal(checkpoint.read("weight"), model.weight_orig)
        assert torch.equal(checkpoint.read_mask("weight"), model.weight_mask.bool())


def test_a_mask_of_booleans_reads_as_it_is(saved):
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


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("place", ["alone", "beside", "inside"])
def test_a_payload_is_refused_by_name_and_does_not_run(saved, tmp_path, options, place):
    payload = Payload(tmp_path / "it-ran")
    state = {"a": torch.ones(2)}
    content = {
        "alone": payload,
        "beside": {"s": state, "p": payload},
        "inside": state | {"p": payload},
    }
    message = refusal(saved(content[place], **options))
    assert not payload.path.exists()
    assert "mkdir" in message
    assert "torch.save(" in message


def test_a_plain_pickle_with_a_payload_is_refused_and_does_not_run(tmp_path):
    payload = Payload(tmp_path / "it-ran")
    for protocol in range(2, 6):
        path = tmp_path / "m.pt"
        path.write_bytes(pickle.dumps(payload, protocol))
        assert "a Python pickle that torch.save did not write" in refusal(path)
        assert not payload.path.exists()


def test_a_whole_model_is_refused_by_the_name_of_its_class(saved, options):
    assert "torch.nn.modules.linear.Linear" in refusal(saved(torch.nn.Linear(1, 1), **options))


def test_a_torchscript_archive_is_refused_by_its_own_words(tmp_path):
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"):
            archive.writestr(name, b"")
    assert "TorchScript" in refusal(path)


@dataclass(frozen=True)
class Claim:
    """A storage that a pickle claims."""

    key: str = "0"
    numel: int = 4
    kind: type = torch.FloatStorage


@dataclass(frozen=True)
class Lie:
    """What pickles as a call to rebuild a tensor, with any arguments."""

    arguments: object
    function: object = torch._utils._rebuild_tensor_v2

    def __reduce__(self):
        return self.function, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Claim):
            return ("storage", value.kind, value.key, "cpu", value.numel)
        return None


def tensor(claim=Claim(), offset=0, shape=(4,), strides=(1,)):
    return Lie((claim, offset, shape, strides, False, OrderedDict()))


def archive_of(path, content, record=bytes(16)):
    octets = io.BytesIO()
    Pickler(octets, 2).dump({"a": content})
    return archive_of_pickle(path, octets.getvalue(), record)


def archive_of_pickle(path, octets, record=bytes(16), compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("m/data.pkl", octets)
        archive.writestr("m/byteorder", "little")
        archive.writestr("m/data/0", record)
        archive.writestr("m/version", "3\n")
    return path


def test_an_honest_archive_opens(tmp_path):
    with open_checkpoint(archive_of(tmp_path / "m.pt", tensor())) as checkpoint:
        assert checkpoint.read("a").tolist() == [0] * 4


BIG = 10**12
LIES = {
    "claims 4,000,000,000,000 bytes": tensor(Claim(numel=BIG)),
    "storage of -1 entries": tensor(Claim(numel=-1)),
    "storage '7' is missing": tensor(Claim(key="7")),
    "does not fit its 16 bytes": tensor(shape=(5,)),
    "(1000000000000,), which does not fit": tensor(shape=(BIG,)),
    "(4,), which does not fit its 16 bytes": tensor(offset=1),
    "(2, 2), which does not fit": tensor(shape=(2, 2), strides=(3, 1)),
    "impossible shape": tensor(shape=(-1,)),
    "an impossible shape": tensor(strides=(-1,)),
    "of an impossible shape": tensor(shape=(2, 2)),
    "in a way torch does not write": Lie((1, 2, 3, 4)),
    "it describes a tensor in a way torch does not": Lie(
        (torch._utils._rebuild_tensor_v2, torch.Tensor, [], {}),
        torch._tensor._rebuild_from_type_v2,
    ),
    "of shape (9,)": Lie(
        (torch._utils._rebuild_tensor_v2, torch.Tensor, tensor(shape=(9,)).arguments, {}),
        torch._tensor._rebuild_from_type_v2,
    ),
    "of shape (17,)": Lie(
        (Claim(), 0, (17,), (1,), False, OrderedDict(), torch.float8_e5m2),
        torch._utils._rebuild_tensor_v3,
    ),
    "without filling it": Lie((BIG,), bytearray),
    "without contents": Lie((BIG,), torch.FloatTensor),
}


@pytest.mark.parametrize("problem", LIES)
def test_a_claim_beyond_what_the_file_holds_is_refused_before_loading(
    tmp_path, monkeypatch, problem
):
    monkeypatch.setattr(torch, "load", None)
    assert problem in refusal(archive_of(tmp_path / "m.pt", LIES[problem]))


def test_a_record_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    path = archive_of(tmp_path / "m.pt", tensor(Claim(numel=1000), shape=(1000,)))
    octets = bytearray(path.read_bytes())
    entry = octets.rindex(b"m/data/0") - 46  # its entry in the central directory
    for field in (20, 24):  # compressed and plain size
        octets[entry + field : entry + field + 4] = (4000).to_bytes(4, "little")
    path.write_bytes(octets)
    assert "'data/0' claims more than the file holds" in refusal(path)


def test_a_storage_of_a_legacy_file_counts_as_the_most_that_is_claimed_of_it(tmp_path):
    octets = io.BytesIO()
    for preamble in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        octets.write(pickle.dumps(preamble, 2))
    Pickler(octets, 2).dump({"a": tensor(Claim(numel=10**9)), "b": tensor(Claim(numel=4))})
    octets.write(pickle.dumps(["0"], 2) + (4).to_bytes(8, "little") + bytes(16))
    (tmp_path / "m.pt").write_bytes(octets.getvalue())
    assert "its tensors claim 4,000,000,008 bytes" in refusal(tmp_path / "m.pt")


def test_a_legacy_file_that_claims_more_than_follows_is_refused(saved):
    path = saved({"a": torch.ones(100)}, **FORMATS["legacy"])
    path.write_bytes(path.read_bytes()[:-8])
    assert "partial download" in refusal(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_file_is_refused(saved, options, share):
    path = saved({"a": torch.ones(1000)}, **options)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert "m" in refusal(path)


def _saved(state, **options) -> bytes:
    octets = io.BytesIO()
    torch.save(state, octets, **options)
    return octets.getvalue()


STATE = {"s": {"a": torch.ones(3, 2), "b": torch.nn.Parameter(torch.ones(1))}, "t": (1, "x")}
with zipfile.ZipFile(io.BytesIO(_saved(STATE))) as _archive:
    PICKLE = _archive.read("archive/data.pkl")
LEGACY = _saved(STATE, **FORMATS["legacy"])
changes = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3)
thorough = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


def changed(octets: bytes, edits: list[tuple[int, int]]) -> bytes:
    edited = bytearray(octets)
    for position, value in edits:
        edited[position % len(edited)] = value
    return bytes(edited)


def test_damaged_names_cause_no_warnings(tmp_path):
    damaged = PICKLE.replace(b"ctorch._utils", b"ctorch.\\outils")
    assert damaged != PICKLE
    assert "not opened" in refusal(archive_of_pickle(tmp_path / "m.pt", damaged, bytes(24)))


def test_a_string_that_claims_to_be_endless_is_refused(tmp_path):
    octets = b"\x80\x04\x8d" + (2**40).to_bytes(8, "little") + b"."
    assert "claims a string of" in refusal(archive_of_pickle(tmp_path / "m.pt", octets))


@pytest.mark.parametrize("record", [b"{", b"[]", b'{"root": [1], "metadata": {}}', b"[" * 99_999])
def test_an_own_record_that_makes_no_sense_is_left_out_with_a_warning(saved, record):
    path = saved({"a": torch.ones(1)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("model/prune_gui.json", record)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.metadata == {}
        (warning,) = checkpoint.warnings
        assert "prune_gui.json" in warning


@thorough
@given(changes, st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
def test_any_change_of_a_pickle_opens_or_is_refused(tmp_path, edits, compression):
    path = archive_of_pickle(tmp_path / "m.pt", changed(PICKLE, edits), bytes(24), compression)
    _opens_or_is_refused(path)


@thorough
@given(changes)
def test_any_change_of_a_legacy_file_opens_or_is_refused(tmp_path, edits):
    path = tmp_path / "m.pt"
    path.write_bytes(changed(LEGACY, edits))
    _opens_or_is_refused(path)


def _opens_or_is_refused(path) -> None:
    try:
        checkpoint = open_checkpoint(path)
    except CheckpointError:
        return
    with checkpoint:
        for name, info in checkpoint.tensors.items():
            assert tuple(checkpoint.read(name).shape) == info.shape
