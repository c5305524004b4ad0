"""Writing torch files as a stream, with the pickles that torch would write."""

import gc
import io
import weakref
import zipfile
from collections import OrderedDict
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from same_values import same

from prune_gui.checkpoint import FileOutput, TensorWriter, open_checkpoint
from prune_gui.checkpoint.torch.archive import ALIGNMENT
from prune_gui.checkpoint.torch.writing import pickled
from prune_gui.checkpoint.write import atomic
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor

LEGACY = {"_use_new_zipfile_serialization": False}


def write(out, entries, template=None, metadata=None, monitor=None) -> None:
    output = FileOutput(path=out, tensors=entries, template=template)
    output.write(metadata or {}, monitor or Monitor())


def trained() -> dict[str, object]:
    """Return a checkpoint as a training script saves it."""
    model = torch.nn.Sequential(torch.nn.Linear(300, 20), torch.nn.Linear(20, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(300)).sum().backward()
    optimizer.step()
    return {
        "epoch": 3,
        "hyper_parameters": {"lr": 0.1, "betas": (0.9, 0.999), "name": "é"},
        "state_dict": model.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "rng": torch.get_rng_state(),
    }


@pytest.mark.filterwarnings("ignore:.*ypedStorage.*")
@pytest.mark.parametrize("options", [{}, LEGACY])
def test_storages_beside_the_state_dict_are_written_as_torch_writes_them(
    saved, tmp_path, unchanged, options
):
    out = tmp_path / "out.pt"
    nest = {"state_dict": {"w": torch.ones(3)}, "cache": [torch.arange(3.0)._typed_storage()]}
    with open_checkpoint(saved(nest, **options)) as checkpoint:
        write(out, unchanged(checkpoint), template=checkpoint)
    [storage] = torch.load(out, weights_only=True)["cache"]
    assert storage.dtype == torch.float32
    assert storage.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("options", [{}, LEGACY])
def test_objects_beside_the_state_dict_are_written_bit_by_bit(
    saved, tmp_path, unchanged, options, mmap
):
    content, out = trained(), tmp_path / "out.pt"
    with open_checkpoint(saved(content, **options)) as checkpoint:
        assert checkpoint.root == ("state_dict",)
        write(out, unchanged(checkpoint), checkpoint)
    assert same(torch.load(out, weights_only=True, mmap=mmap), content)


def test_mapped_values_are_aligned_as_in_torch(tmp_path):
    out = tmp_path / "out.pt"
    sizes = (1, 3, 0, 64, 65, 1000)
    state = {f"w{size}": torch.arange(float(size)) for size in sizes}
    write(
        out,
        [
            TensorWriter(k, "float32", tuple(t.shape), lambda t=t: iter([t]))
            for k, t in state.items()
        ],
    )
    loaded = torch.load(out, weights_only=True, mmap=True)
    assert same(loaded, state)
    first = loaded["w1"].data_ptr()
    assert all((t.data_ptr() - first) % ALIGNMENT == 0 for t in loaded.values() if t.numel())
    with zipfile.ZipFile(out) as archive, out.open("rb") as file:
        for record in archive.infolist():
            file.seek(record.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            assert (record.header_offset + 30 + name + extra) % ALIGNMENT == 0


def test_views_that_share_elements_stay_views_of_one_storage(saved, tmp_path, unchanged):
    whole = torch.rand(40, 30)
    state = {"whole": whole, "rows": whole[10:30], "turned": whole.T[:5], "other": torch.ones(2)}
    out = tmp_path / "out.pt"
    with open_checkpoint(saved(state)) as checkpoint:
        assert checkpoint.tensors["rows"].spared
        write(out, unchanged(checkpoint), checkpoint)
    loaded = torch.load(out, weights_only=True)
    assert same(loaded, state)
    assert len({loaded[key].untyped_storage().data_ptr() for key in state}) == 2
    loaded["whole"].zero_()
    assert not loaded["rows"].any()
    assert not loaded["turned"].any()


def test_a_change_of_a_tensor_that_shares_elements_is_refused(saved, tmp_path, unchanged):
    whole = torch.ones(4)
    with open_checkpoint(saved({"whole": whole, "part": whole[1:]})) as checkpoint:
        _, part = unchanged(checkpoint)
        zeros = TensorWriter("whole", "float32", (4,), lambda: iter([torch.zeros(4)]))
        with pytest.raises(CheckpointError, match="differs from the data"):
            write(tmp_path / "out.pt", [zeros, part], checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_a_slice_of_a_large_storage_is_written_alone(saved, tmp_path, unchanged):
    path, out = saved({"a": torch.rand(100_000)[:10]}), tmp_path / "out.pt"
    assert path.stat().st_size > 400_000
    with open_checkpoint(path) as checkpoint:
        write(out, unchanged(checkpoint), checkpoint)
    assert out.stat().st_size < 10_000


def test_only_a_few_chunks_are_in_memory_at_once(tmp_path):
    live_chunks: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    max_live = count = 0

    def chunks() -> Iterator[torch.Tensor]:
        nonlocal max_live, count
        for _ in range(10):
            chunk = torch.zeros(1000)
            live_chunks.add(chunk)
            count += 1
            max_live = max(max_live, len(live_chunks))
            yield chunk
            del chunk

    entries = [TensorWriter(f"w{i}", "float32", (10, 1000), chunks) for i in range(10)]
    gc.collect()
    write(tmp_path / "out.pt", entries)
    assert count == 100
    assert max_live <= 6


def test_a_kept_value_that_is_corrupted_during_writing_is_detected(
    saved, tmp_path, monkeypatch, unchanged
):
    is_zipfile = zipfile.is_zipfile

    def spoiled(path):
        octets = bytearray(path.read_bytes())
        octets[octets.index(b"\x00\x00\x9aD")] ^= 1  # of 1232.0
        path.write_bytes(octets)
        return is_zipfile(path)

    monkeypatch.setattr(zipfile, "is_zipfile", spoiled)
    content = {"model": {"a": torch.ones(2)}, "optimizer": [torch.tensor([1232.0])]}
    with (
        open_checkpoint(saved(content)) as checkpoint,
        pytest.raises(CheckpointError, match="read back"),
    ):
        write(tmp_path / "out.pt", unchanged(checkpoint), checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_kept_values_count_for_progress_and_free_space(saved, tmp_path, monkeypatch, unchanged):
    content = {"model": {"a": torch.ones(100)}, "optimizer": [torch.ones(5000)]}
    seen: list[tuple[int, int]] = []
    with open_checkpoint(saved(content)) as checkpoint:
        assert checkpoint.nbytes_outside() == 20_000
        monitor = Monitor(progress=lambda *step: seen.append(step))
        write(tmp_path / "out.pt", unchanged(checkpoint), checkpoint, monitor=monitor)
        done, total = seen[-1]
        assert 2 * 20_400 < done == total < 2 * 21_000
        usage = type("Usage", (), {"free": 20_399})
        monkeypatch.setattr(atomic.shutil, "disk_usage", lambda _: usage)
        with pytest.raises(CheckpointError, match="needs 20,400 bytes"):
            write(tmp_path / "other.pt", unchanged(checkpoint), checkpoint)


DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.uint8, torch.bool, torch.uint16),
)


def torchs_own(content: object) -> tuple[bytes, list[bytes]]:
    """Return the pickle and the storages that torch.save writes, in the order of their numbers."""
    file = io.BytesIO()
    torch.save(content, file)
    with zipfile.ZipFile(file) as archive:
        numbers = range(sum("/data/" in name for name in archive.namelist()))
        storages = [archive.read(f"archive/data/{number}") for number in numbers]
        return archive.read("archive/data.pkl"), storages


def octets(storage: torch.UntypedStorage) -> bytes:
    return bytes(storage.tolist())


tensors = st.builds(
    lambda dtype, shape: torch.arange(64).to(dtype)[: torch.Size(shape).numel()].reshape(shape),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
)
nests = st.recursive(
    tensors | st.integers() | st.text(max_size=5) | st.floats() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(nests)
def test_nested_objects_are_pickled_as_torch_pickles_them(content):
    pickle, storages = pickled(content, ())
    assert (pickle, [octets(storage) for storage in storages]) == torchs_own(content)


@pytest.mark.filterwarnings("ignore:.*quantiz.*", "ignore:.*ypedStorage.*", "ignore:.*[Ss]parse")
def test_ties_views_and_special_tensors_are_pickled_as_torch_pickles_them():
    weight = torch.rand(4, 3)
    content = OrderedDict(
        weight=weight,
        tied=weight,
        turned=weight.T,
        part=weight[1:, ::2],
        parameter=torch.nn.Parameter(weight),
        conjugate=torch.ones(2, dtype=torch.complex64).conj(),
        sparse=torch.eye(3).to_sparse(),
        quantized=torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        meta=torch.ones(2, device="meta"),
        storage=torch.ones(3, dtype=torch.uint8).untyped_storage(),
    )
    content._metadata = {"": {"version": 1}}
    pickle, storages = pickled(content, ())
    assert pickle == torchs_own(content)[0]
    assert len(storages) == len(torchs_own(content)[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_blank_is_pickled_like_a_tensor_with_values(dtype):
    def content(device: str) -> dict[str, object]:
        state = {
            "a": torch.zeros(2, 3, dtype=dtype, device=device),
            "scalar": torch.zeros((), dtype=dtype, device=device),
            "empty": torch.zeros(0, 4, dtype=dtype, device=device),
        }
        return state | {"tied": state["a"]}

    blanks = content("meta")
    parameters = {"p": torch.nn.Parameter(blanks["a"], requires_grad=False)}
    pickle, storages = pickled(blanks | parameters, blanks.values())
    real = content("cpu")
    same = real | {"p": torch.nn.Parameter(real["a"], requires_grad=False)}
    assert pickle == torchs_own(same)[0]
    assert [storage.nbytes() for storage in storages] == list(map(len, torchs_own(same)[1]))


def test_a_meta_tensor_that_is_not_a_blank_stays_without_values():
    blank, other = torch.zeros(2, device="meta"), torch.zeros(2, device="meta")
    pickle, storages = pickled({"blank": blank, "other": other}, [blank])
    assert pickle == torchs_own({"blank": torch.zeros(2), "other": other})[0]
    assert len(storages) == 1
