"""Workers and schedulers that are killed while a cluster works: the same result, or one error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import torch
from distributed import Client, LocalCluster
from object_stores import forget_connections, s3_contents, serving_s3, use_s3
from polling import wait_until
from sharded_files import tied_weights, write_shards
from upload_proxy import upload_proxy
from written_files import contents

from prune_gui.checkpoint import open_checkpoint
from prune_gui.cluster import dask_executor
from prune_gui.errors import ClusterError
from prune_gui.monitor import Progress
from prune_gui.recipe import Recipe, export, resolve

pytestmark = [pytest.mark.slow, pytest.mark.very_slow]

ANY_PORT = "127.0.0.1:0"
SHAPE = 1024, 4100
"""Each tensor is read in three spans or more."""
SHARD_BYTES = 20_000_000
STEPS = [
    {"method": "l1_unstructured", "scope": "global", "amount": 0.2},
    {"method": "ln_structured", "scope": "global", "amount": 0.1, "n": 1, "dim": 0},
    {"method": "lamp", "amount": 0.2},
    {"method": "l1_unstructured", "scope": "row", "amount": 0.2},
]
CANCELLED = "prune-gui: Cancelled; nothing was changed.\n"
RECIPE = Recipe(steps=[{"targets": ["*weight"], **step} for step in STEPS])


@pytest.fixture(scope="module")
def sharded(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "sharded"
    torch.manual_seed(0)
    shards = {
        f"model-{number}.safetensors": {
            f"{layer}.{number}.weight": tied_weights(SHAPE, torch.float32) for layer in "ab"
        }
        for number in (1, 2)
    }
    write_shards(folder, shards)
    return folder


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    """Three worker processes; those that end are started again."""
    with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=ANY_PORT) as cluster:
        yield cluster


@pytest.fixture
def client(three) -> Iterator[Client]:
    with Client(three, set_as_default=False) as client:
        yield client


def at_each_share(count: int, act: Callable[[], object]) -> Progress:
    """Return a function that acts when each of `count` equal shares of the work begins."""
    left = [share / count for share in range(count)]

    def report(done: int, total: int) -> None:
        if left and done > left[0] * total:
            left.pop(0)
            act()

    return report


def kill_a_worker(client: Client) -> None:
    """Kill a worker that runs a task, if any does."""
    running = client.processing()
    nannies = [nanny for nanny in client.cluster.workers.values() if nanny.pid]
    busiest = max(nannies, key=lambda nanny: len(running.get(nanny.worker_address, ())))
    os.kill(busiest.pid, signal.SIGKILL)


@contextmanager
def ending(program: list[str], *arguments: str) -> Iterator[psutil.Popen]:
    """Run a program, and end it with all of its processes after the block."""
    with psutil.Popen([*program, *arguments], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            if process.is_running():
                for child in [*process.children(recursive=True), process]:
                    child.kill()


def address_in(file: Path) -> str:
    """Wait for the file of a scheduler, and return the address in it."""
    wait_until(lambda: file.exists() and file.read_text())
    address: str = json.loads(file.read_text())["address"]
    return address


def test_killed_workers_change_no_cut(sharded, client, caplog):
    killed = []

    def kill() -> None:
        killed.append(kill_a_worker(client))

    with open_checkpoint(sharded) as checkpoint:
        alone = resolve(RECIPE, checkpoint)
        together = resolve(RECIPE, checkpoint, at_each_share(6, kill), cluster=client)
        assert together.counts == alone.counts
        for name in checkpoint.tensors:
            assert torch.equal(together.pruned_by(name), alone.pruned_by(name))
    assert len(killed) >= len(STEPS)


@pytest.mark.parametrize("kills", [1, 4])
def test_workers_killed_while_they_write_change_no_byte(sharded, client, tmp_path, caplog, kills):
    killed = []

    def kill() -> None:
        killed.append(kill_a_worker(client))

    with open_checkpoint(sharded) as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        export(resolution, tmp_path / "alone", shard_size=SHARD_BYTES)
        export(
            resolution,
            tmp_path / "together",
            progress=at_each_share(kills, kill),
            shard_size=SHARD_BYTES,
            cluster=client,
        )
    assert contents(tmp_path / "together") == contents(tmp_path / "alone")
    assert killed


def test_workers_killed_while_they_upload_change_no_byte(sharded, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    killed, one_at_a_time = [], threading.Lock()
    forget_connections()
    with serving_s3() as server, upload_proxy(server) as proxy:
        url = use_s3(server, "results", monkeypatch).url
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)  # workers start with it
        with (
            LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=ANY_PORT) as three,
            Client(three, set_as_default=False) as client,
            open_checkpoint(sharded) as checkpoint,
        ):

            def kill(method: str, path: str) -> None:
                with one_at_a_time:
                    if method == "PUT" and "partNumber=2" in path and len(killed) < 2:
                        killed.append(kill_a_worker(client))

            proxy.before_answer = kill
            proxy.faults = ["slow"] * 20
            resolution = resolve(RECIPE, checkpoint)
            export(resolution, tmp_path / "alone", shard_size=SHARD_BYTES)
            export(resolution, f"{url}/together", shard_size=SHARD_BYTES, cluster=client)
        objects, pending = s3_contents(server, "results")
    forget_connections()
    expected = contents(tmp_path / "alone")
    assert objects == {f"together/{name}": file for name, file in expected.items()}
    assert len(killed) == 2
    assert not pending


def test_a_cluster_without_workers_is_an_error(sharded, three, client, monkeypatch, caplog):
    monkeypatch.setattr(dask_executor, "NO_WORKERS_TIMEOUT_S", 1.0)
    stop = at_each_share(1, lambda: three.scale(0))
    with (
        open_checkpoint(sharded) as checkpoint,
        pytest.raises(ClusterError, match="lost all of its workers"),
    ):
        resolve(RECIPE, checkpoint, stop, cluster=client)


def test_a_killed_scheduler_is_an_error(sharded, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(dask_executor, "CONNECT_TIMEOUT_S", 3)
    address_file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    options = ["--host", "127.0.0.1", "--dashboard-address", ANY_PORT, "--port", "0"]
    to_file = ["--scheduler-file", str(address_file)]
    with (
        ending(dask, "scheduler", *options, *to_file) as scheduler,
        ending(dask, "worker", "--dashboard-address", ANY_PORT, *to_file),
        open_checkpoint(sharded) as checkpoint,
        dask_executor.open_cluster(address_in(address_file)) as client,
    ):
        client.wait_for_workers(1)
        kill = at_each_share(1, scheduler.kill)
        with pytest.raises(ClusterError, match="scheduler of the cluster was lost"):
            resolve(RECIPE, checkpoint, kill, cluster=client)


def has_imported_torch(process):
    with suppress(psutil.NoSuchProcess):
        return any("torch_cpu" in one.path for one in process.memory_maps())
    return False


@pytest.mark.parametrize("started", [False, True])
def test_ctrl_c_ends_the_program_and_its_workers(sharded, tmp_path, started):
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "out"
    # So many steps take longer than the imports of the workers, however fast the machine is.
    recipe.write_text(RECIPE.with_steps(RECIPE.steps * 40).to_yaml())
    words = ["apply", recipe, sharded, "-o", out, "--cluster", "local:2"]
    command = [sys.executable, "-m", "prune_gui", *map(str, words)]
    with psutil.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        while not (children := program.children()):
            time.sleep(0.01)
        while started and sum(map(has_imported_torch, program.children())) < 2:
            time.sleep(0.05)
        os.killpg(program.pid, signal.SIGINT) if started else program.send_signal(signal.SIGINT)
        _, printed = program.communicate(timeout=60)
    assert (program.returncode, printed) == (130, CANCELLED)
    assert not out.exists()
    assert not psutil.wait_procs(children, timeout=10)[1]
