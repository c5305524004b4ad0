"""Fuzz a target with atheris: `python tests/fuzzing/run.py pickle -max_total_time=60`.

Without a target, all targets are fuzzed, as many at once as there are processors. Further arguments
are passed to libFuzzer. An input that makes a target fail is written to the working folder as
`crash-...`.
"""

import logging
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "checkpoint")]
TARGETS = (
    *("header", "gguf", "archive", "legacy", "pickle", "npz", "flax", "config"),
    *("index", "recipe", "conditions", "share"),
)


def main(arguments: list[str]) -> int:
    """Fuzz; return the exit code."""
    if arguments and arguments[0] in TARGETS:
        return fuzz(arguments[0], arguments[1:])
    command = [sys.executable, __file__]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda name: subprocess.run([*command, name, *arguments]), TARGETS)
        return max(abs(run.returncode) for run in runs)


class RaisingHandler(logging.Handler):
    """Raises what a parser did not expect, which is refused and logged as an error."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            raise record.exc_info[1]


def fuzz(name: str, options: list[str]) -> int:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["prune_gui.checkpoint", "prune_gui.recipe"]):
        from fuzzing.targets import TARGETS as ALL
    logging.getLogger().addHandler(RaisingHandler())
    target = ALL[name]
    with tempfile.TemporaryDirectory() as seeds:
        for number, octets in enumerate(target.seeds()):
            Path(seeds, f"{number}").write_bytes(octets)
        atheris.Setup([sys.argv[0], *options, seeds], target.run)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
