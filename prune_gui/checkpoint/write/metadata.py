"""Metadata to write: fingerprints and checksums are known only after the values are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.source import FINGERPRINT_PREFIX
from prune_gui.executor import current_executor
from prune_gui.monitor import Monitor

ANY_FINGERPRINT: Final = f"{FINGERPRINT_PREFIX}{'0' * 64}"
"""A fingerprint of the usual length."""
CHECKSUMS_KEY: Final = "prune_gui.crc32"
"""Metadata: a JSON object with the CRC-32 of each tensor's bytes, as eight hexadecimal digits.

CRC-32 detects accidental damage. It is also computed for the comparison with the written file, at
about twice the speed of SHA-256. No digest in the file itself can detect deliberate changes.
"""
CHECKSUM: Final = re.compile(r"[0-9a-f]{8}")
MAX_RECORD_CHARS: Final = 1 << 24
"""The limit for the record: 300,000 tensors with names of 40 characters. Headers have a limit."""


@dataclass(frozen=True, slots=True)
class LateText:
    """A text that is computed while the values are written; the placeholder has as many bytes.

    `result` waits for the text and returns it, or raises the error of its computation.
    """

    placeholder: str
    result: Callable[[], str]

    def text(self, *, wait: bool) -> str:
        """Return the text, or the placeholder."""
        return self.result() if wait else self.placeholder


Metadata = Mapping[str, str | LateText]
"""The texts to write by key."""


@contextmanager
def fingerprint_beside(
    checkpoint: Checkpoint, monitor: Monitor, *, at_once: bool = False
) -> Iterator[str | LateText]:
    """Yield the fingerprint of a checkpoint, which another thread computes during the block.

    The computation is cancelled if the block ends before it. On an executor (see
    `prune_gui.executor`), whose workers cannot wait for it, and if it is wanted `at_once`, it is
    computed before the block.
    """
    if at_once or current_executor() is not None:
        yield checkpoint.fingerprint(monitor)
        return
    left = Event()
    with ThreadPoolExecutor(1, "prune-gui-fingerprint") as pool:
        future = pool.submit(_fingerprint, checkpoint, monitor.stopped_by(left))
        try:
            yield LateText(ANY_FINGERPRINT, future.result)
        finally:
            left.set()


def _fingerprint(checkpoint: Checkpoint, monitor: Monitor) -> str:
    with monitor.in_charge():
        return checkpoint.fingerprint(monitor)


def with_checksums(
    metadata: Metadata, keys: Iterable[str], checksums: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Return metadata with late texts, and with the checksums if it has the key `CHECKSUMS_KEY`.

    Without `checksums`, it does not wait for late texts, and fills in their placeholders and zeros,
    which take the same number of bytes.
    """
    texts = {
        key: text.text(wait=checksums is not None) if isinstance(text, LateText) else text
        for key, text in metadata.items()
    }
    if CHECKSUMS_KEY not in metadata:
        return texts
    digits = {key: f"{checksums[key] if checksums else 0:08x}" for key in keys}
    record = json.dumps(digits, ensure_ascii=False, separators=(",", ":"))
    return {**texts, CHECKSUMS_KEY: record if len(record) <= MAX_RECORD_CHARS else ""}


def checksums_in(metadata: Mapping[str, str]) -> dict[str, int]:
    """Return the checksums that metadata records, by key; ValueError if the record is invalid."""
    record = metadata.get(CHECKSUMS_KEY)
    if not record:
        return {}
    try:
        checksums = json.loads(record)
    except RecursionError as error:
        raise ValueError(record) from error
    if not isinstance(checksums, dict) or not all(map(_is_checksum, checksums.values())):
        raise ValueError(record)
    return {key: int(digits, 16) for key, digits in checksums.items()}


def _is_checksum(digits: object) -> bool:
    return isinstance(digits, str) and CHECKSUM.fullmatch(digits) is not None
