import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import pytest
import safetensors
import safetensors.torch
import torch
from applied import CancelAfter

from prune_gui.checkpoint import Checkpoint, TensorWriter, open_checkpoint, source
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.write import content, plain_files
from prune_gui.checkpoint.write.content import (
    ANY_FINGERPRINT,
    CHECKSUMS_KEY,
    LateText,
    checksums_in,
    fingerprint_beside,
    with_checksums,
)
from prune_gui.checkpoint.write.plain_files import MAX_PREFETCHED, prefetch
from prune_gui.checkpoint.write.temp_files import TEMPORARY_SUFFIX
from prune_gui.checkpoint.write.writing import FileOutput
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.parallel import use_threads

Unchanged = Callable[[Checkpoint], list[TensorWriter]]
SUFFIXES = [".safetensors", ".pt"]


def constant(name: str, *values: float) -> TensorWriter:
    tensor = torch.tensor(values, dtype=torch.float32)
    return TensorWriter(name, "float32", tuple(tensor.shape), lambda: iter([tensor]))


def write(out: Path, entries, template=None, metadata=None, monitor=None, **options) -> None:
    output = FileOutput(path=out, tensors=entries, template=template, **options)
    output.write(metadata or {}, monitor or Monitor())


def temp_files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if TEMPORARY_SUFFIX in path.name]


def load(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        return safetensors.torch.load_file(path)
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("source", SUFFIXES)
@pytest.mark.parametrize("target", SUFFIXES)
def test_any_format_converts_to_any_format_without_loss(
    tmp_path, every_dtype, unchanged: Unchanged, source, target
):
    path, out = tmp_path / f"in{source}", tmp_path / f"out{target}"
    save = safetensors.torch.save_file if source == ".safetensors" else torch.save
    save(every_dtype, path)
    with open_checkpoint(path) as checkpoint:
        write(out, unchanged(checkpoint), checkpoint, {"recipe": "é: 1"})
        keys, warnings = checkpoint.keys, checkpoint.warnings
    loaded = load(out)
    assert sorted(loaded) == sorted(every_dtype)
    for name, tensor in every_dtype.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
    with open_checkpoint(out) as again:
        assert again.keys == keys
        assert again.metadata == {"recipe": "é: 1"}
        assert [*map(len, again.warnings)] == [*map(len, warnings)]  # the order of names differs
    assert temp_files(tmp_path) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_strided_tensors_are_written_in_row_major_order(
    saved, tmp_path, unchanged: Unchanged, suffix
):
    values = torch.arange(240.0)
    state = {
        "every other": values.clone().view(12, 20)[:, ::2],  # flat, it is still a strided view
        "turned": values.clone().view(12, 20).T,
        "part": values.clone().chunk(3)[1],
        "channels last": values.view(2, 3, 4, 10).to(memory_format=torch.channels_last),
        "conjugate": torch.tensor([1 + 2j]).conj(),
    }
    with open_checkpoint(saved(state)) as checkpoint:
        write(tmp_path / f"out{suffix}", unchanged(checkpoint), checkpoint)
    loaded = load(tmp_path / f"out{suffix}")
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[key], state[key]) for key in state)


def test_an_unchanged_safetensors_file_is_written_byte_for_byte(
    tmp_path, every_dtype, unchanged: Unchanged
):
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    safetensors.torch.save_file(every_dtype | {'ä"\\\n\x7f': torch.ones(1)}, path, {"k": "ü\t"})
    with open_checkpoint(path) as checkpoint:
        write(out, unchanged(checkpoint), checkpoint, checkpoint.metadata)
    assert out.read_bytes() == path.read_bytes()


def test_packed_elements_are_copied_unchanged(tmp_path, unchanged: Unchanged):
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    header = b'{"a":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]}} '
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    with open_checkpoint(path) as checkpoint:
        write(out, unchanged(checkpoint), checkpoint)
        with pytest.raises(CheckpointError, match="torch does not know"):
            write(tmp_path / "out.pt", unchanged(checkpoint), checkpoint)
    assert out.read_bytes() == path.read_bytes()
    assert temp_files(tmp_path) == []


def test_a_torch_file_keeps_all_objects_around_the_state_dict(saved, tmp_path):
    state = OrderedDict(
        a=torch.ones(2),
        note="between",
        sparse=torch.eye(2).to_sparse(),
        b=torch.nn.Parameter(torch.ones(1)),
    )
    state._metadata = {"": {"version": 1}}
    twin = {"a": torch.full((2,), 7.0), "b": torch.ones(1)}
    content = OrderedDict(epoch=3, model={"state": state}, ema=twin, best=torch.tensor(0.5))
    with open_checkpoint(saved(content)) as checkpoint:
        assert checkpoint.root == ("model", "state")
        entries = [constant("a", 5, 6), constant("b", 4)]
        write(tmp_path / "out.pt", entries, checkpoint)
    loaded = torch.load(tmp_path / "out.pt", weights_only=True)
    assert type(loaded) is OrderedDict
    assert list(loaded) == ["epoch", "model", "ema", "best"]
    assert loaded["epoch"] == 3
    assert loaded["ema"]["a"].tolist() == [7, 7]
    assert loaded["best"] == 0.5
    new = loaded["model"]["state"]
    assert type(new) is OrderedDict
    assert new._metadata == {"": {"version": 1}}
    assert list(new) == ["a", "note", "sparse", "b"]
    assert new["a"].tolist() == [5, 6]
    assert new["note"] == "between"
    assert torch.equal(new["sparse"].to_dense(), torch.eye(2))
    assert type(new["b"]) is torch.nn.Parameter


def test_the_written_state_dict_is_opened_again_even_if_another_one_is_larger(saved, tmp_path):
    pair = {"w_orig": torch.ones(2), "w_mask": torch.ones(2)}
    with open_checkpoint(saved({"model": pair, "ema": dict(pair)})) as checkpoint:
        write(tmp_path / "out.pt", [constant("w", 5, 6)], checkpoint)
    with open_checkpoint(tmp_path / "out.pt") as again:
        assert again.root == ("model",)
        assert again.read("w").tolist() == [5, 6]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_tied_parameter_is_written_under_all_names_at_their_positions(saved, tmp_path, suffix):
    weight = torch.ones(2)
    state = {"emb": weight, "body": torch.ones(1), "head": weight}
    out = tmp_path / f"out{suffix}"
    with open_checkpoint(saved(state)) as checkpoint:
        write(out, [constant("emb", 5, 6), constant("body", 4)], checkpoint)
    with open_checkpoint(out) as again:
        assert again.keys == ("emb", "body", "head")
        assert again.read_key("head").tolist() == [5, 6]
        tied = {info.name: info.aliases for info in again.tensors.values()}
    if suffix == ".pt":
        assert tied == {"emb": ("head",), "body": ()}


def test_a_tied_parameter_is_reparametrized_under_all_names_and_stays_tied(saved, tmp_path):
    weight = torch.ones(2)
    with open_checkpoint(saved({"emb": weight, "body": torch.ones(1), "head": weight})) as dense:
        entries = [constant("emb_orig", 5, 6), constant("emb_mask", 0, 1), constant("body", 4)]
        write(tmp_path / "pair.pt", entries, dense)
    with open_checkpoint(tmp_path / "pair.pt") as pair:
        assert pair.keys == ("emb_orig", "emb_mask", "body", "head_orig", "head_mask")
        assert pair.tensors["emb"].aliases == ("head",)
        write(tmp_path / "final.pt", [constant("emb", 0, 6), constant("body", 4)], pair)
    with open_checkpoint(tmp_path / "final.pt") as final:
        assert final.keys == ("emb", "body", "head")
        assert final.tensors["emb"].aliases == ("head",)


def test_an_object_that_is_too_deep_for_torch_is_refused(saved, tmp_path):
    with open_checkpoint(saved({"a": torch.ones(1)})) as checkpoint:
        content: dict[str, object] = {}
        checkpoint.content["deep"] = content
        for _ in range(100_000):
            content["deeper"] = content = {}
        with pytest.raises(CheckpointError, match="too deeply"):
            write(tmp_path / "out.pt", [constant("b", 1)], checkpoint)
    assert not (tmp_path / "out.pt").exists()
    assert temp_files(tmp_path) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_file_that_is_being_read_can_be_overwritten(saved, tmp_path, unchanged, suffix):
    path = tmp_path / f"m{suffix}"
    write(path, [constant("a", *range(5000)), constant("b", 1)])
    with open_checkpoint(path) as checkpoint:
        entries = [constant("a", *range(5000, 10000)), *unchanged(checkpoint)[1:]]
        write(path, entries, checkpoint, overwrite=True)
        assert checkpoint.read("a")[0] == 0
    assert load(path)["a"][0] == 5000


def asked_in_all(tmp_path, suffix: str) -> int:
    flag = CancelAfter(10**9)
    write(tmp_path / f"whole{suffix}", [big()], monitor=Monitor(cancel=flag))
    return 10**9 - flag.times


def big() -> TensorWriter:
    values = torch.zeros(3 << 20)  # three chunks
    return TensorWriter("a", "float32", (3 << 20,), lambda: iter([values]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_cancelling_at_any_time_leaves_only_the_old_file(tmp_path, suffix):
    times = asked_in_all(tmp_path, suffix)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / f"m{suffix}"
    path.write_bytes(b"old")
    for moment in range(times):
        with pytest.raises(Cancelled):
            write(path, [big()], overwrite=True, monitor=Monitor(cancel=CancelAfter(moment)))
        assert [child.name for child in folder.iterdir()] == [path.name]
        assert path.read_bytes() == b"old"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_progress_ends_at_its_total_in_steps_of_at_most_a_chunk(tmp_path, suffix):
    seen: list[tuple[int, int]] = []
    monitor = Monitor(progress=lambda done, total: seen.append((done, total)))
    write(tmp_path / f"m{suffix}", [big()], monitor=monitor)
    assert seen[-1][0] == seen[-1][1]
    steps = [b[0] - a[0] for a, b in zip([(0, 0), *seen], seen, strict=False)]
    assert min(steps) >= 0
    assert max(steps) <= source.CHUNK_BYTES == 4 << 20


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_while_values_are_computed_leaves_no_files(tmp_path, suffix, failure):
    def chunks():
        yield torch.zeros(1)
        raise failure

    with pytest.raises(failure):
        write(tmp_path / f"m{suffix}", [TensorWriter("a", "float32", (2,), chunks)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_of_tensors_are_written_in_any_order_to_the_same_bytes(
    tmp_path, monkeypatch, threads
):
    monkeypatch.setattr(content, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(plain_files, "BATCH_BYTES", 1 << 13)
    tensors = {"a": torch.randn(70, 101), "b": torch.randn(5).bfloat16(), "c": torch.randn(9000)}

    def parts(tensor: torch.Tensor, spans) -> Iterator[torch.Tensor]:
        return (tensor.reshape(-1)[start:stop] for start, stop in spans)

    entries = [
        TensorWriter.of(
            name, str(t.dtype).removeprefix("torch."), tuple(t.shape), partial(parts, t)
        )
        for name, t in tensors.items()
    ]
    whole = [replace(entry, values=None) for entry in entries]
    out, expected = tmp_path / "m.safetensors", tmp_path / "whole.safetensors"
    use_threads(threads)
    try:
        write(out, entries, metadata={CHECKSUMS_KEY: ""})
    finally:
        use_threads(None)
    write(expected, whole, metadata={CHECKSUMS_KEY: ""})
    assert out.read_bytes() == expected.read_bytes()
    for name, values in load(out).items():
        assert torch.equal(values, tensors[name])
    with open_checkpoint(out) as checkpoint:
        octets = {name: t.view(torch.uint8).numpy().tobytes() for name, t in tensors.items()}
        assert checksums_in(checkpoint.metadata) == {k: zlib.crc32(v) for k, v in octets.items()}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_chunks_of_the_wrong_size_or_dtype_are_refused(tmp_path, suffix):
    for values in (torch.zeros(1), torch.zeros(3)):
        with pytest.raises(ValueError, match="chunks of 'a'"):
            write(
                tmp_path / f"m{suffix}",
                [TensorWriter("a", "float32", (2,), lambda v=values: iter([v]))],
            )
    with pytest.raises(ValueError, match=r"is torch\.int32, not float32"):
        write(
            tmp_path / f"m{suffix}",
            [TensorWriter("a", "float32", (1,), lambda: iter([torch.zeros(1, dtype=torch.int32)]))],
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_byte_that_is_corrupted_during_writing_is_detected(tmp_path, monkeypatch, suffix):
    from prune_gui.checkpoint.write import writing

    def spoiled(path):
        octets = bytearray(path.read_bytes())
        octets[octets.index(b"\x00\x00\x9aD")] ^= 1  # of 1232.0
        path.write_bytes(octets)
        return open_checkpoint(path)

    monkeypatch.setattr(writing, "open_file", spoiled)
    with pytest.raises(CheckpointError, match="read back"):
        write(tmp_path / f"m{suffix}", [constant("a", 1232.0)])
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_safetensors_cannot_store_are_refused(saved, tmp_path):
    out = tmp_path / "m.safetensors"
    with pytest.raises(CheckpointError, match="'__metadata__'"):
        write(out, [constant("__metadata__", 1)])
    with pytest.raises(CheckpointError, match="complex128"):
        write(out, [TensorWriter("a", "complex128", (0,), lambda: iter(()))])
    state = {"a": torch.ones(1), "s": torch.eye(2).to_sparse()}
    with (
        open_checkpoint(saved(state)) as checkpoint,
        pytest.raises(CheckpointError, match=r"'s' \(sparse\)"),
    ):
        write(out, [constant("a", 1)], checkpoint)
    assert not out.exists()
    assert temp_files(tmp_path) == []


def test_two_tensors_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same name"):
        write(tmp_path / "m.pt", [constant("a", 1), constant("a", 2)])


def test_a_late_text_is_waited_for_only_with_the_checksums():
    asked = []
    metadata = {"a": "b", "late": LateText("12", lambda: asked.append(1) or "34")}
    assert with_checksums(metadata, ["w"]) == {"a": "b", "late": "12"}
    assert not asked
    assert with_checksums(metadata, ["w"], {"w": 1}) == {"a": "b", "late": "34"}


@pytest.fixture
def checkpoint(on_disk):
    return on_disk({"w": torch.zeros(1 << 20)})


def test_the_fingerprint_has_the_length_of_its_placeholder(checkpoint):
    with fingerprint_beside(checkpoint, Monitor()) as late:
        assert late.result() == checkpoint.fingerprint(Monitor())
    assert len(late.result()) == len(late.placeholder) == len(ANY_FINGERPRINT)


def test_an_error_in_the_block_ends_the_computation(checkpoint, monkeypatch):
    started = Event()

    def endless(_, monitor, _chunks):
        while True:
            monitor.advance(1)
            started.set()

    def fail():
        with fingerprint_beside(checkpoint, Monitor()):
            started.wait()
            raise ZeroDivisionError

    monkeypatch.setattr(Source, "fingerprint", endless)
    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_cancelled_monitor_cancels_the_computation(checkpoint):
    cancel = Event()
    cancel.set()
    with fingerprint_beside(checkpoint, Monitor(cancel=cancel)) as late, pytest.raises(Cancelled):
        late.result()


def test_items_come_in_order_and_from_another_thread():
    makers = []

    def items():
        for i in range(20):
            makers.append(threading.current_thread())
            yield i

    assert list(prefetch(items())) == list(range(20))
    assert threading.current_thread() not in makers


def test_only_a_few_items_are_computed_in_advance():
    computed = []
    with closing(prefetch(computed.append(i) or i for i in range(100))) as prepared:
        for used in range(1, 10):
            next(prepared)
            assert len(computed) <= used + MAX_PREFETCHED + 1


def test_an_exception_is_raised_after_the_items_before_it():
    def items():
        yield 1
        raise KeyError("lost")

    items_so_far = []
    with pytest.raises(KeyError, match="lost"):
        items_so_far.extend(prefetch(items()))
    with closing(prefetch(items())) as prepared:
        assert next(prepared) == 1


def test_leaving_early_ends_the_thread():
    before = threading.active_count()
    with closing(prefetch(range(100))) as prepared:
        assert next(prepared) == 0
    assert threading.active_count() == before
