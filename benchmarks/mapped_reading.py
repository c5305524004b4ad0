"""What reading weights with pread costs beside mapping the file: ``python mapped_reading.py``.

Passes over 512 MiB of float32 in the page cache, in chunks of 4 MiB on one thread. Mapped pages
need the signal handler of `prune_gui.checkpoint.bus_errors`; pread would not.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np

NBYTES = 1 << 29
CHUNK_BYTES = 4 << 20
REPEATS = 5
Pass = Callable[[np.ndarray], object]
PASSES: dict[str, Pass] = {
    "count zeros": np.count_nonzero,
    "sum of |w|": lambda weights: np.abs(weights).sum(),
    "histogram of exponents": lambda weights: np.bincount(weights.view(np.uint32) << 1 >> 24),
}


def mapped(file: int, run: Pass) -> None:
    """Run a pass over mapped pages."""
    weights = np.frombuffer(mmap.mmap(file, NBYTES, access=mmap.ACCESS_COPY), np.float32)
    for chunk in np.split(weights, NBYTES // CHUNK_BYTES):
        run(chunk)


def copied(file: int, run: Pass) -> None:
    """Run a pass over a buffer into which each chunk is read."""
    buffer = bytearray(CHUNK_BYTES)
    for start in range(0, NBYTES, CHUNK_BYTES):
        os.preadv(file, [buffer], start)
        run(np.frombuffer(buffer, np.float32))


def main() -> None:
    """Print the processor time of both, and the ratio."""
    with tempfile.TemporaryFile() as file:
        np.random.default_rng(0).standard_normal(NBYTES // 4, np.float32).tofile(file)
        file.flush()
        for name, run in PASSES.items():
            times = []
            for read in (mapped, copied):
                seconds = []
                for _ in range(REPEATS):
                    start = time.process_time()
                    read(file.fileno(), run)
                    seconds.append(time.process_time() - start)
                times.append(min(seconds))
            ratio = times[1] / times[0] - 1
            print(f"{name}: mapped {times[0]:.3f} s, pread {times[1]:.3f} s ({ratio:+.0%})")


if __name__ == "__main__":
    main()
