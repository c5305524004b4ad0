"""Pruning on a Dask cluster: the same cuts as on one machine, and only small messages."""

import asyncio
import errno
import json
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
from distributed import Client, LocalCluster, Security
from distributed.comm import CommClosedError, connect
from file_server import serving
from object_stores import forget_connections, s3_contents, serving_s3, use_s3
from sharded_files import tied_weights, write_shards
from system_faults import raising
from written_files import contents

from prune_gui import parallel
from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.checkpoint.sharded import writing
from prune_gui.cli.program import cli
from prune_gui.cluster import dask_executor
from prune_gui.errors import Cancelled, CheckpointError, ClusterError, StepError
from prune_gui.monitor import Monitor
from prune_gui.pruning.norms import unit_norms
from prune_gui.pruning.plugins import load_methods
from prune_gui.recipe import Recipe, Resolution, export, resolve
from prune_gui.statistics import dispatch as spreading_figures
from prune_gui.statistics import layer_statistics, zero_scan
from prune_gui.statistics.layer_statistics import compute, empty_statistics
from prune_gui.statistics.zero_scan import ZeroScan

pytestmark = pytest.mark.slow  # workers are processes, which take seconds to start

MAX_MESSAGE_BYTES = 16_000
"""About half of a tensor."""
STEPS = {
    "global": {"method": "l1_unstructured", "scope": "global", "amount": 0.3},
    "capped": {"method": "l1_unstructured", "scope": "global", "amount": 0.3, "max_sparsity": 0.5},
    "local": {"method": "l1_unstructured", "amount": 0.3},
    "row": {"method": "l1_unstructured", "scope": "row", "amount": 0.3},
    "random": {"method": "random_unstructured", "scope": "global", "amount": 0.3, "seed": 3},
    "threshold": {"method": "threshold", "value": 0.5, "relative_to": "std"},
    "balanced": {"method": "balanced", "over": "global", "amount": 0.3},
    "lamp": {"method": "lamp", "amount": 0.3},
    "erk": {"method": "erk", "amount": 0.3},
    "channels": {"method": "ln_structured", "amount": 0.2, "n": 2, "dim": 0},
    "wide": {"method": "ln_structured", "amount": 0.2, "n": 1, "dim": 1, "scope": "global"},
    "blocks": {"method": "block", "amount": 0.2, "height": 4, "width": 4},
    "n:m": {"method": "n_m", "n": 2, "m": 4},
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A cluster of two workers in this process; its messages are those between machines."""
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(2, **options) as two, Client(two, set_as_default=False) as client:
        client.gather(client.map(time.sleep, [0.01] * 8, pure=False))  # starts all threads
        yield client


@pytest.fixture
def sharded(tmp_path) -> Path:
    """Two shards."""
    shards = {
        f"model-{number}.safetensors": {
            f"{layer}.{number}.weight": tied_weights((60, 128), dtype) for layer in "abc"
        }
        for number, dtype in enumerate((torch.float32, torch.bfloat16), 1)
    }
    write_shards(tmp_path / "sharded", shards)
    return tmp_path / "sharded"


@pytest.fixture
def checkpoint(sharded) -> Iterator[Checkpoint]:
    with open_checkpoint(sharded) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 1000)
    monkeypatch.setattr(unit_norms, "MIN_SPAN_ELEMENTS", 1000)


@pytest.fixture(autouse=True)
def _idle_workers(reopened, client) -> Iterator[None]:
    yield
    # A cancelled task may still run; each worker has one thread.
    idle = [client.submit(time.sleep, 0, workers=[one], pure=False) for one in client.nthreads()]
    client.gather(idle)


@pytest.fixture
def messages(monkeypatch) -> list[int]:
    """The bytes of each message."""
    sizes: list[int] = []
    loads = cloudpickle.loads

    def loads_and_note(pickled: bytes) -> object:
        sizes.append(len(pickled))
        return loads(pickled)

    monkeypatch.setattr(cloudpickle, "loads", loads_and_note)
    return sizes


def recipe_of(*steps: dict[str, object]) -> Recipe:
    return Recipe(steps=[{"targets": ["*weight"], **step} for step in steps])


def assert_same(together: Resolution, alone: Resolution) -> None:
    assert together.counts == alone.counts
    for tensor in alone.checkpoint.tensors:
        assert torch.equal(together.pruned_by(tensor), alone.pruned_by(tensor))


@pytest.mark.parametrize("name", STEPS)
def test_a_cluster_finds_the_same_cuts(name, checkpoint, client, messages):
    recipe = recipe_of(STEPS[name], STEPS["global"], STEPS[name])
    alone = resolve(recipe, checkpoint)
    together = resolve(recipe, checkpoint, cluster=client)
    assert_same(together, alone)
    assert messages


def test_messages_hold_no_weights_and_no_masks(checkpoint, client, messages):
    resolve(recipe_of(*STEPS.values()), checkpoint, cluster=client)
    assert max(messages) < MAX_MESSAGE_BYTES


def test_workers_fetch_a_remote_checkpoint_themselves(
    checkpoint, client, messages, sharded, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    alone = resolve(recipe_of(STEPS["global"]), checkpoint)
    with serving(sharded) as server, open_checkpoint(f"{server.url}/{checkpoint.path.name}") as far:
        together = resolve(recipe_of(STEPS["global"]), far, cluster=client)
        assert_same(together, alone)
    assert messages


def test_zeros_of_the_file_are_counted_on_the_cluster(checkpoint, client, messages):
    recipe = Recipe(start="zeros", steps=[{"targets": ["a.*"], **STEPS["global"]}])
    together = resolve(recipe, checkpoint, cluster=client)
    assert together.counts == resolve(recipe, checkpoint).counts
    assert len(messages) > len(checkpoint.tensors)


def test_cuts_are_known_when_a_cluster_has_resolved(checkpoint, client):
    resolution = resolve(recipe_of(STEPS["local"]), checkpoint, cluster=client)
    [applied] = resolution.layers["a.1.weight"]
    assert applied.predicate.lazy.is_computed


def test_progress_is_that_of_one_machine(checkpoint, client):
    recipe, reports = recipe_of(STEPS["global"]), {}
    for name, where in {"alone": None, "together": client}.items():
        resolve(recipe, checkpoint, lambda *done, to=name: reports.update({to: done}), None, where)
    assert reports["together"] == reports["alone"]
    assert reports["together"][0] == reports["together"][1]


def test_cancel_ends_the_tasks(checkpoint, client):
    stop = threading.Event()
    with pytest.raises(Cancelled):
        resolve(recipe_of(STEPS["global"]), checkpoint, lambda *_: stop.set(), stop, client)
    assert not client.futures


def test_a_file_that_a_worker_does_not_find_is_named(checkpoint, client, sharded):
    moved = sharded.with_name("moved")
    sharded.rename(moved)
    with pytest.raises(CheckpointError, match=r"sharded/.*does not exist on a worker"):
        resolve(recipe_of(STEPS["global"]), checkpoint, cluster=client)


def test_another_file_at_the_same_path_is_refused(checkpoint, client, sharded):
    shutil.copytree(sharded, copied := sharded.with_name("copied"), copy_function=shutil.copy)
    os.utime(copied / "model-1.safetensors", (0, 0))
    sharded.rename(sharded.with_name("moved"))
    copied.rename(sharded)
    with pytest.raises(CheckpointError, match="is another file than here"):
        resolve(recipe_of(STEPS["global"]), checkpoint, cluster=client)


def test_masks_of_a_plug_in_stay_here(checkpoint, client, plugin_file, nearest_mean):
    load_methods(nearest_mean)
    recipe = recipe_of({"method": "nearest_mean", "amount": 0.5}, STEPS["global"])
    with pytest.raises(StepError, match="cannot be computed on a cluster"):
        resolve(recipe, checkpoint, cluster=client)


def test_another_version_of_the_program_on_a_worker_is_refused(checkpoint, client, monkeypatch):
    here = threading.current_thread()
    version = dask_executor._version()
    found = lambda: version if threading.current_thread() is here else "0.0.1"  # noqa: E731
    monkeypatch.setattr(dask_executor, "_version", found)
    with pytest.raises(ClusterError, match=r"has prune-gui 0\.0\.1\. Install"):
        resolve(recipe_of(STEPS["global"]), checkpoint, cluster=client)


@pytest.mark.parametrize("where", ["local:", "local:0", "local:-1", "local:x", "local:²"])
def test_a_cluster_of_no_processes_is_refused(where):
    with pytest.raises(ClusterError, match="names no cluster"), dask_executor.open_cluster(where):
        pass


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    needs = pytest.raises(ClusterError, match=r'pip install "prune-gui\[cluster\]"')
    with needs, dask_executor.open_cluster("local:2"):
        pass


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize("shard_size", [None, 50_000])
def test_workers_write_the_same_shards(checkpoint, client, tmp_path, messages, form, shard_size):
    recipe = recipe_of(STEPS["row"])
    resolution = resolve(recipe, checkpoint)
    export(resolution, tmp_path / "alone", form, shard_size=shard_size)
    assert not messages
    export(resolution, tmp_path / "both", form, shard_size=shard_size, cluster=client)
    assert contents(tmp_path / "both") == contents(tmp_path / "alone")
    assert len(messages) >= 3  # the digests of two shards, and what is written
    assert max(messages) < MAX_MESSAGE_BYTES


def test_workers_upload_their_shards(checkpoint, client, tmp_path, messages, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    resolution = resolve(recipe_of(STEPS["row"]), checkpoint)
    export(resolution, tmp_path / "alone")
    forget_connections()
    with serving_s3() as server:
        url = use_s3(server, "results", monkeypatch).url
        export(resolution, f"{url}/both", cluster=client)
        objects, pending = s3_contents(server, "results")
    forget_connections()
    assert objects == {f"both/{name}": file for name, file in contents(tmp_path / "alone").items()}
    assert not pending
    assert len(messages) >= 3


def test_workers_write_torch_shards_with_all_that_is_in_them(client, tmp_path):
    folder = tmp_path / "torch"
    folder.mkdir()
    tied = tied_weights((60, 128), torch.float32)
    first = {"a.weight": tied, "b.weight": tied, "n": torch.tensor(3)}
    second = {"c.weight": tied + 1, "s": torch.eye(2).to_sparse(), "note": "kept"}
    torch.save(first, folder / "pytorch_model-1.bin")
    torch.save(second, folder / "pytorch_model-2.bin")
    weight_map = dict.fromkeys(first, "pytorch_model-1.bin")
    weight_map |= dict.fromkeys(("c.weight", "s"), "pytorch_model-2.bin")
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (folder / "pytorch_model.bin.index.json").write_text(index)
    with open_checkpoint(folder) as checkpoint:
        resolution = resolve(recipe_of(STEPS["global"]), checkpoint, cluster=client)
        export(resolution, tmp_path / "alone")
        export(resolution, tmp_path / "both", cluster=client)
    assert contents(tmp_path / "both") == contents(tmp_path / "alone")


def test_what_a_lost_worker_left_is_removed(checkpoint, client, tmp_path, monkeypatch):
    resolution = resolve(recipe_of(STEPS["global"]), checkpoint)
    write_file = writing.write_file

    def write_and_leave(path: Path, *arguments) -> Callable[[], None]:
        path.with_name("left").write_bytes(b"part of a shard")
        return write_file(path, *arguments)

    monkeypatch.setattr(writing, "write_file", write_and_leave)
    export(resolution, tmp_path / "out", cluster=client)
    assert contents(tmp_path / "out").keys() == contents(tmp_path / "sharded").keys()


@pytest.mark.parametrize("fault", ["the disk is full", "does not exist on a worker"])
def test_a_fault_of_a_worker_is_named_and_leaves_no_file(
    checkpoint, client, tmp_path, monkeypatch, fault
):
    resolution, here = resolve(recipe_of(STEPS["global"]), checkpoint), threading.current_thread()
    if fault == "the disk is full":
        monkeypatch.setattr(
            writing, "write_file", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        )
    else:
        monkeypatch.setattr(Path, "is_dir", lambda _: threading.current_thread() is here)
    with pytest.raises(CheckpointError, match=fault):
        export(resolution, tmp_path / "out", cluster=client)
    assert {path.name for path in tmp_path.iterdir()} == {"sharded"}


@pytest.fixture
def spread_all(monkeypatch) -> None:
    """Compute the figures of each parameter in a task of its own, in several chunks."""
    monkeypatch.setattr(spreading_figures, "MIN_SPREAD_BYTES", 0)
    monkeypatch.setattr(layer_statistics, "MAX_SMALL_ELEMENTS", 5000)
    monkeypatch.setattr(zero_scan, "MAX_SMALL_ELEMENTS", 5000)


def statistics_of(resolution: Resolution) -> np.ndarray:
    return compute(empty_statistics(resolution), lambda _: True, Monitor()).measures


@pytest.mark.usefixtures("spread_all")
def test_statistics_of_layers_are_the_same_to_the_bit(checkpoint, client, messages):
    resolution = resolve(recipe_of(STEPS["channels"], STEPS["global"]), checkpoint)
    alone = statistics_of(resolution)
    with dask_executor.use_cluster(client):
        assert statistics_of(resolution).tobytes() == alone.tobytes()
    assert len(messages) == len(checkpoint.tensors)
    assert max(messages) < MAX_MESSAGE_BYTES


def test_figures_of_small_files_are_computed_here(checkpoint, client, messages):
    with dask_executor.use_cluster(client):
        statistics_of(resolve(recipe_of(), checkpoint))
        ZeroScan(checkpoint).advance(math.inf, Monitor())
    assert not messages


@pytest.mark.usefixtures("spread_all")
def test_figures_of_the_masks_of_a_plug_in_are_computed_here(
    checkpoint, client, plugin_file, nearest_mean
):
    load_methods(nearest_mean)
    resolution = resolve(recipe_of({"method": "nearest_mean", "amount": 0.5}), checkpoint)
    alone = statistics_of(resolution)
    with dask_executor.use_cluster(client):
        assert statistics_of(resolution).tobytes() == alone.tobytes()


@pytest.fixture
def pruned(checkpoint, tmp_path) -> Path:
    recipe = recipe_of(STEPS["n:m"], {**STEPS["channels"], "targets": ["a.*"]})
    export(resolve(recipe, checkpoint), tmp_path / "pruned")
    return tmp_path / "pruned"


@pytest.mark.usefixtures("spread_all")
def test_zeros_and_their_patterns_are_the_same(pruned, client, messages):
    with open_checkpoint(pruned) as checkpoint:
        alone = ZeroScan(checkpoint).advance(math.inf, Monitor())
        assert {found.n_m for found in alone.patterns.values()} == {"2:4"}
        with dask_executor.use_cluster(client):
            assert ZeroScan(checkpoint).advance(math.inf, Monitor()) == alone
        assert messages


@pytest.mark.usefixtures("spread_all")
def test_a_cancelled_count_of_zeros_continues(pruned, client):
    with open_checkpoint(pruned) as checkpoint, dask_executor.use_cluster(client):
        scan, stop = ZeroScan(checkpoint), threading.Event()
        with pytest.raises(Cancelled):
            scan.advance(math.inf, Monitor(lambda *_: stop.set(), stop))
        found = scan.advance(math.inf, Monitor())
        assert found == ZeroScan(checkpoint).advance(math.inf, Monitor())
        assert found.is_complete


@pytest.mark.usefixtures("spread_all")
def test_a_slice_of_time_is_some_bytes_on_a_cluster(pruned, client, monkeypatch):
    monkeypatch.setattr(zero_scan, "ROUND_BYTES", 1)
    with open_checkpoint(pruned) as checkpoint, dask_executor.use_cluster(client):
        scan = ZeroScan(checkpoint)
        assert len(scan.advance(0, Monitor()).counts) == 1
        assert len(scan.advance(0, Monitor()).counts) == 2


@pytest.mark.usefixtures("spread_all")
@pytest.mark.parametrize(
    "command",
    [
        ["inspect", "pruned"],
        ["diff", "sharded", "pruned"],
        ["report", "pruned", "sharded", "-o", "report.html", "--overwrite"],
        ["report", "pruned", "--reference", "sharded", "-o", "report.html", "--overwrite"],
    ],
    ids=" ".join,
)
def test_figures_on_the_command_line_are_the_same(
    command, pruned, client, messages, monkeypatch, capsys
):
    monkeypatch.chdir(pruned.parent)
    printed = []
    for where in ([], ["--cluster", client.scheduler.address]):
        assert not messages
        cli.main([*command, "--json", *where], standalone_mode=False)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert messages
    assert max(messages) < MAX_MESSAGE_BYTES


def test_programs_without_the_certificate_cannot_connect_to_a_local_cluster():
    async def connect_to(address: str, security: Security) -> None:
        comm = await connect(address, timeout=3, **security.get_connection_args("client"))
        await comm.write({"op": "identity"})
        await comm.read()

    with dask_executor.open_cluster("local:1") as client:
        address = client.scheduler.address
        assert address.startswith("tls://")
        plain = address.replace("tls", "tcp")
        for way, security in ((address, Security.temporary()), (plain, Security())):
            with pytest.raises((OSError, CommClosedError)):
                asyncio.run(connect_to(way, security))
