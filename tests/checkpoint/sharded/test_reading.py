"""Sharded checkpoints open as one, and each fault of an index is named."""

import errno
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from system_faults import Fault, system_calls

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.sharded import index as shard_index
from prune_gui.checkpoint.sharded import reading as sharded_reading
from prune_gui.errors import CheckpointError

Shards = dict[str, dict[str, torch.Tensor]]
Split = Callable[..., Path]
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs links, pipes or limits")


@pytest.fixture
def split(tmp_path) -> Split:
    """Return a function that saves shards and their index, and returns the path of the index."""

    def save(shards: Shards, weight_map: object = None, **metadata: object) -> Path:
        for name, tensors in shards.items():
            write = safetensors.torch.save_file if name.endswith(".safetensors") else torch.save
            write(tensors, tmp_path / name)
        if weight_map is None:
            weight_map = {key: name for name, tensors in shards.items() for key in tensors}
        suffix = Path(next(iter(shards))).suffix
        path = tmp_path / f"model{suffix}.index.json"
        path.write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))
        return path

    return save


def three(suffix: str = ".safetensors") -> Shards:
    return {
        f"model-{i:05}-of-00003{suffix}": {
            f"layer.{i}.weight": torch.full((2, 3), float(i)),
            f"layer.{i}.bias": torch.full((3,), -float(i)),
        }
        for i in (1, 2, 3)
    }


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 1000
    return message


@pytest.mark.parametrize("suffix", [".safetensors", ".bin"])
def test_all_shards_open_as_one_by_their_index_or_their_folder(split, suffix):
    shards = three(suffix)
    index = split(shards, total_size=108)
    everything = {key: tensor for held in shards.values() for key, tensor in held.items()}
    for path in (index, index.parent):
        with open_checkpoint(path) as opened:
            assert opened.path == index
            assert opened.format == ("safetensors" if suffix == ".safetensors" else "torch")
            assert opened.files == tuple(index.parent / name for name in shards)
            assert opened.warnings == ()
            assert set(opened.keys) == set(everything)
            numbers = [key.split(".")[1] for key in opened.keys]
            assert numbers == sorted(numbers)
            for key, tensor in everything.items():
                assert torch.equal(opened.read(key), tensor)
            with pytest.raises(CheckpointError, match="no tensor 'x'"):
                opened.read_key("x")
        with pytest.raises(CheckpointError, match="is closed"):
            opened.read(key)


@pytest.mark.parametrize("suffix", [".safetensors", ".bin"])
def test_views_of_tensors_in_several_shards_are_in_order(split, suffix):
    tensors = {f"w{i}": torch.arange(4.0).reshape(2, 2) + 4 * i for i in range(6)}
    halves = [dict(list(tensors.items())[half]) for half in (slice(3), slice(3, 6))]
    path = split({f"m-{i}{suffix}": half for i, half in enumerate(halves)})
    with open_checkpoint(path) as checkpoint:
        for names in ([*tensors], [*reversed(tensors)], ["w4", "w1", "w5"]):
            expected = torch.cat([tensors[name].reshape(-1) for name in names])
            assert torch.cat(checkpoint.views(names)).equal(expected)
        with pytest.raises(CheckpointError, match="no parameter 'w9'"):
            checkpoint.views(["w1", "w9"])


def test_variants_and_capitals_are_recognized_as_indexes(split):
    index = split(three())
    for name in ("model.safetensors.index.fp16.json", "Model.SafeTensors.Index.JSON"):
        index = index.rename(index.with_name(name))
        with open_checkpoint(index) as opened:
            assert len(opened.tensors) == 6


def test_one_shard_opens_alone_and_names_its_index(split):
    index = split(three())
    with open_checkpoint(index.parent / "model-00002-of-00003.safetensors") as opened:
        assert list(opened.tensors) == ["layer.2.bias", "layer.2.weight"]
        assert opened.warnings == (
            "It is one of 3 shards; open model.safetensors.index.json for the whole checkpoint.",
        )
    index.write_text("{")
    with open_checkpoint(index.parent / "model-00002-of-00003.safetensors") as opened:
        assert opened.warnings == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no weight_map"),
        ("3", "no weight_map"),
        ('{"metadata": {}}', "no weight_map"),
        ('{"weight_map": []}', "no weight_map"),
        ('{"weight_map": {}}', "no weight_map"),
        ('{"weight_map": {"a": 1}}', "1 is not a file name"),
        ('{"weight_map": {"a": ["a.safetensors"]}}', "is not a file name"),
        ('{"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}}', "'a' appears more"),
    ],
)
def test_an_invalid_index_is_refused_with_the_reason(tmp_path, text, words):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(text.encode("latin-1"))
    message = refusal(path)
    assert message.startswith("model.safetensors.index.json is not a valid index")
    assert words in message


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../out.safetensors",
        "/etc/x.safetensors",
        "in/x.safetensors",
        "in\\x.safetensors",
        "C:x.safetensors",
        "a\0.safetensors",
        "a\n.safetensors",
        "\ud800.safetensors",
        "x.bin",
        "x.json",
        "model.safetensors.index.json",
        "x.safetensors/",
        "x" * 5000 + ".safetensors",
    ],
)
def test_the_name_of_a_shard_must_be_a_plain_file_name_with_the_right_suffix(split, name):
    (shard, tensors), *_ = three().items()
    keys = list(tensors)
    message = refusal(split({shard: tensors}, {keys[0]: shard, keys[1]: name}))
    assert "is not the name of a file in its folder" in message or "is not a .saf" in message


names = st.sampled_from(
    ["a.safetensors", "b.safetensors", "a.safetensors/..", ".", "c.safetensors"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | names,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("weight_map"), inner),
)


@given(anything | st.fixed_dictionaries(
    {"weight_map": st.dictionaries(st.sampled_from("xyz"), names | anything), "metadata": anything}
))  # fmt: skip
def test_any_index_opens_or_is_refused(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp() / "any"
    if not folder.exists():
        folder.mkdir()
        safetensors.torch.save_file({"x": torch.ones(1)}, folder / "a.safetensors")
        safetensors.torch.save_file({"y": torch.ones(1)}, folder / "b.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))
    with suppress(CheckpointError), open_checkpoint(folder) as opened:
        assert all(float(opened.read(name)) == 1 for name in opened.tensors)


def test_a_huge_index_is_not_read(split, monkeypatch):
    index = split(three())
    monkeypatch.setattr(shard_index, "MAX_INDEX_BYTES", 100)
    assert "larger than 100 bytes" in refusal(index)


def test_a_missing_shard_is_named(split):
    index = split(three())
    (index.parent / "model-00002-of-00003.safetensors").unlink()
    assert "model-00002-of-00003.safetensors, which is not in" in refusal(index)


def test_a_tensor_that_is_not_in_its_listed_shard_is_named(split):
    shards = three()
    first, second, _ = shards
    for key in ("layer.2.bias", "layer.9.bias"):
        message = refusal(split(shards, {"layer.2.weight": second, key: first}))
        assert f"'{key}' in {first}, which" in message


def test_a_tensor_in_two_shards_is_named_with_both(split):
    shards = three()
    first, _, third = shards
    shards[third]["layer.1.bias"] = torch.zeros(3)
    weight_map = {"layer.1.bias": first, "layer.3.bias": third}
    message = refusal(split(shards, weight_map))
    assert f"both {first} and {third} hold 'layer.1.bias'" in message


@posix_only
def test_a_shard_that_links_out_of_the_folder_is_refused(split, tmp_path_factory):
    index = split(three())
    shard = index.parent / "model-00002-of-00003.safetensors"
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret.safetensors"
    shard.rename(elsewhere)
    shard.symlink_to(elsewhere)
    assert "link to a file in another folder" in refusal(index)
    shard.unlink()
    shard.symlink_to(shard)
    assert f"{shard.name} cannot be read" in refusal(index)
    shard.unlink()
    shard.symlink_to("nowhere")
    assert "which is not in" in refusal(index)
    shard.unlink()
    shard.mkdir()
    assert "is not a file" in refusal(index)
    shard.rmdir()
    os.mkfifo(shard)
    assert "is not a file" in refusal(index)
    shard.unlink()
    elsewhere.rename(index.parent / "other.safetensors")
    shard.symlink_to("other.safetensors")
    with open_checkpoint(index) as opened:
        assert len(opened.tensors) == 6


@posix_only
def test_the_links_in_the_cache_of_hugging_face_are_followed(split, tmp_path):
    index = split(three())
    snapshot, blobs = tmp_path / "models--x" / "snapshots" / "1a2b", tmp_path / "models--x/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate([index, *tmp_path.glob("*.safetensors")]):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    with open_checkpoint(snapshot) as opened:
        assert len(opened.tensors) == 6


def test_a_shard_of_another_format_is_named(split):
    index = split(three(".bin"))
    shard = index.parent / "model-00002-of-00003.bin"
    safetensors.torch.save_file({"layer.2.weight": torch.ones(1)}, shard)
    assert f"{shard.name} is a safetensors checkpoint" in refusal(index)
    shard.write_bytes(b"7z\xbc\xaf\x27\x1c")
    assert f"{shard.name} is a 7z archive" in refusal(index)


def test_tensors_and_files_that_the_index_does_not_list_give_a_remark(split):
    shards = three()
    (stray, _), *others = reversed(shards.items())
    weight_map = {key: name for name, held in others for key in held}
    weight_map.pop("layer.1.bias")
    with open_checkpoint(split(shards, weight_map)) as opened:
        assert {*opened.tensors} == {key for _, held in others for key in held}
        assert torch.equal(opened.read("layer.1.bias"), shards[others[-1][0]]["layer.1.bias"])
        unlisted, unnamed = opened.warnings
    assert unlisted.startswith("Tensors that the index does not list are pruned")
    assert unlisted.endswith(": 'layer.1.bias' in model-00001-of-00003.safetensors.")
    assert unnamed.endswith(f"are neither opened nor copied: {stray}.")


@pytest.mark.parametrize("size", [107, 1e300, float("nan"), -1, 10**4000, 108, 108.0, "many", None])
def test_a_wrong_total_size_is_only_a_remark(split, size):
    with open_checkpoint(split(three(), total_size=size)) as opened:
        remarks = opened.warnings
    assert len(remarks) == (size not in (108, "many", None))
    assert all(remark.endswith("bytes; it is 108.") and len(remark) < 200 for remark in remarks)


def test_ties_are_found_within_a_shard_and_pairs_across_shards(split):
    one, other = torch.ones(4), torch.ones(4)
    shards = {
        "m-1.bin": {"a": one, "tied": one, "p_orig": torch.ones(2)},
        "m-2.bin": {"b": other, "p_mask": torch.tensor([1.0, 0.0])},
    }
    with open_checkpoint(split(shards, total_size=4 * 4 * 2 + 2 * 4 * 2)) as opened:
        assert opened.warnings == ()
        assert {info.name: info.aliases for info in opened.tensors.values()} == {
            "a": ("tied",), "p": (), "b": (),
        }  # fmt: skip
        assert opened.read_mask("p").tolist() == [True, False]


@posix_only
def test_a_checkpoint_may_have_more_shards_than_open_files_are_allowed(split):
    import resource

    count = 300
    index = split({f"m-{i:03}.safetensors": {f"t{i:03}": torch.tensor(i)} for i in range(count)})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = len(list(Path("/dev/fd").iterdir())) + sharded_reading.MAX_OPEN_SHARDS + 20
    assert room < count
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
    try:
        with open_checkpoint(index) as opened:
            assert [int(opened.read(key)) for key in opened.keys] == list(range(count))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_threads_can_read_while_shards_are_closed_and_reopened(split, monkeypatch):
    monkeypatch.setattr(sharded_reading, "MAX_OPEN_SHARDS", 1)
    with open_checkpoint(split(three())) as opened, ThreadPoolExecutor(4) as threads:
        names = [f"layer.{i}.weight" for i in (1, 2, 3)] * 50
        values = threads.map(lambda name: float(opened.read(name)[0, 0]), names)
        assert list(values) == [1.0, 2.0, 3.0] * 50


def test_a_shard_that_changed_since_opening_is_refused(split, monkeypatch):
    index = split(three())
    monkeypatch.setattr(sharded_reading, "MAX_OPEN_SHARDS", 1)
    with open_checkpoint(index) as opened:
        shard = index.parent / "model-00001-of-00003.safetensors"
        os.utime(shard, (1, 1))
        with pytest.raises(CheckpointError, match=r"model-00001-of-00003\.safetensors was changed"):
            opened.read("layer.1.bias")
        shard.unlink()
        with pytest.raises(CheckpointError, match="which is not in"):
            opened.read("layer.1.bias")
        assert opened.read("layer.3.bias").tolist() == [-3.0] * 3


@posix_only
def test_no_shard_stays_open_when_a_system_call_fails(split):
    index = split(three())
    (index.parent / "config.json").write_text("{}")
    process = psutil.Process()
    with system_calls() as calls:
        open_checkpoint(index).close()
    for number, name in enumerate(list(calls)):
        if name == "close":  # a file whose close fails stays open
            continue
        before = process.num_fds()
        with system_calls(Fault(number, errno.EIO)):
            try:
                open_checkpoint(index).close()
            except CheckpointError:  # while it is handled, its frames keep the files alive
                assert process.num_fds() == before, (number, name)
