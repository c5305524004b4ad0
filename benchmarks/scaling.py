"""Time and memory of pruning shards on one process and on 1, 2 and 4 workers of a cluster.

Usage: ``python benchmarks/scaling.py [GIGABYTES ...] [--folder FOLDER]``. The default sizes are 1
and 4. The checkpoint is bfloat16, in shards of about 0.5 GB; the step is L1 global 0.5. All workers
are processes of this machine with one thread each, so that more workers than cores gain nothing.
The first row of a size is one process with as many threads as there are cores. Memory is the
largest anonymous memory of a worker, without pages of mapped files. *sent* are the bytes of all
tasks, and *received* those of their answers, of resolving and of export. The shards of all rows are
compared.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporting import make_checkpoint

WORKERS = (1, 2, 4)
SHARD_BYTES = 500_000_000
FORMAT = "{:>8} {:>8} {:>9} {:>9} {:>9} {:>20} {:>20}"


def anonymous_memory(process: Any) -> int:  # noqa: ANN401 - psutil is imported where it is needed
    """Return the resident bytes of a process that no file backs."""
    info = process.memory_info()
    return int(info.rss - info.shared)


@contextmanager
def cluster_of(workers: int) -> Iterator[Any]:
    """Yield a client of a cluster with this many processes; None for no cluster."""
    if not workers:
        yield None
        return
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm_up)
        yield client


def warm_up() -> None:
    """Prune a small checkpoint, so that libraries and compiled loops are loaded."""
    from prune_gui.pruning.kernels.loop import interpret_up_to

    interpret_up_to(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_checkpoint(folder / "small.safetensors", 0)
        prune(folder / "small.safetensors", folder / "pruned.safetensors", None)


class Traffic:
    """Counts the pickled bytes of the tasks of a client and of their answers."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401
        self.sent = self.received = 0
        if client is not None:
            self._submit, self._gather = client.submit, client.gather
            client.submit, client.gather = self._count_task, self._count_answers

    def _count_task(self, work: Any, pickled: bytes, *rest: Any, **options: Any) -> Any:  # noqa: ANN401
        self.sent += len(pickled)
        return self._submit(work, pickled, *rest, **options)

    def _count_answers(self, futures: Any) -> Any:  # noqa: ANN401
        answers = self._gather(futures)
        self.received += sum(len(pickle.dumps(answer)) for answer in answers)
        return answers


def prune(source: Path, out: Path, client: Any) -> tuple[float, float, str, str]:  # noqa: ANN401
    """Resolve and export; return the seconds of both, and the bytes that they sent and received."""
    import prune_gui

    step = {"method": "l1_unstructured", "targets": ["*"], "scope": "global", "amount": 0.5}
    recipe = prune_gui.Recipe.model_validate({"steps": [step]})
    traffic = Traffic(client)
    with prune_gui.open_checkpoint(source) as checkpoint:
        start = time.perf_counter()
        resolution = prune_gui.resolve(recipe, checkpoint, cluster=client)
        resolved, sent, received = time.perf_counter(), traffic.sent, traffic.received
        prune_gui.export(resolution, out, cluster=client)
    return (
        resolved - start,
        time.perf_counter() - resolved,
        f"{sent:,}+{traffic.sent - sent:,}",
        f"{received:,}+{traffic.received - received:,}",
    )


def largest_memory(client: Any) -> int:  # noqa: ANN401
    """Return the largest anonymous memory of a worker, or of this process without a cluster."""
    import psutil

    if client is None:
        return anonymous_memory(psutil.Process())
    pids = client.run(lambda: __import__("os").getpid()).values()
    return max(anonymous_memory(psutil.Process(pid)) for pid in pids)


def digest(folder: Path) -> str:
    """Return a digest of the names and contents of all files."""
    lines = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            lines.update(
                f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()
            )
    return lines.hexdigest()


def main() -> int:
    """Measure and print; return 1 if the shards of a row differ from those of the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gigabytes", nargs="*", type=float, default=[1, 4])
    parser.add_argument("--folder", type=Path, help="where to write, by default a temporary folder")
    arguments = parser.parse_args()
    warm_up()
    print(FORMAT.format("size", "workers", "resolve", "export", "memory", "sent", "received"))
    differ = False
    for gigabytes in arguments.gigabytes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            folder = Path(name)
            file, source = folder / "one.safetensors", folder / "shards"
            make_checkpoint(file, gigabytes)
            split(file, source)
            file.unlink()
            expected = ""
            for workers in (0, *WORKERS):
                out = folder / "pruned"
                with cluster_of(workers) as client:
                    resolve_s, export_s, *traffic = prune(source, out, client)
                    memory = largest_memory(client)
                found = digest(out)
                differ |= bool(expected) and found != expected
                expected = expected or found
                shutil.rmtree(out)
                times = f"{resolve_s:.1f} s", f"{export_s:.1f} s"
                who = str(workers) if workers else "none"
                row = f"{gigabytes:g} GB", who, *times, f"{memory >> 20} MB", *traffic
                print(FORMAT.format(*row), flush=True)
    return int(differ)


def split(file: Path, folder: Path) -> None:
    """Write a checkpoint again, as shards."""
    import prune_gui

    with prune_gui.open_checkpoint(file) as checkpoint:
        resolution = prune_gui.resolve(prune_gui.Recipe(steps=[]), checkpoint)
        prune_gui.export(resolution, folder, shard_size=SHARD_BYTES)


if __name__ == "__main__":
    sys.exit(main())
