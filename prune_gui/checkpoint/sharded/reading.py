"""Reading a sharded checkpoint as one checkpoint."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Final

from prune_gui.checkpoint.base import NO_SURROUNDINGS, Checkpoint, FileCheckpoint, Surroundings
from prune_gui.checkpoint.sharded.index import ShardIndex, check_part
from prune_gui.checkpoint.source import FINGERPRINT_PREFIX
from prune_gui.checkpoint.tensor_info import RawTensor, size_in_bytes
from prune_gui.checkpoint.write.content import CHECKSUMS_KEY
from prune_gui.errors import CheckpointError
from prune_gui.executor import current_executor
from prune_gui.language import listed, tr
from prune_gui.monitor import Monitor
from prune_gui.parallel import run

if TYPE_CHECKING:
    import torch


MAX_OPEN_SHARDS: Final = 32
"""Shards that are open at once: the most recently used ones."""


class ShardedCheckpoint(Checkpoint):
    """A checkpoint in several files, the shards, with an index.

    Tensors are in the order of the names of the shards, and within a shard in file order. The index
    has to agree with the shards; tensors that it does not list belong to the checkpoint, too.

    Attributes:
        shard_of: the name of the shard that holds each tensor, by its key.
        differing_metadata: the keys of metadata that have different values in the shards,
            without the checksums, which each shard has of its own tensors.
    """

    def __init__(
        self,
        index: ShardIndex,
        open_file: Callable[[Path], FileCheckpoint],
        surroundings: Surroundings = NO_SURROUNDINGS,
    ) -> None:
        """Open all shards once to read their headers; `open_file` opens one."""
        self.index = index
        self.format = self.index.format.name
        self._open_file = open_file
        self._open: OrderedDict[str, FileCheckpoint] = OrderedDict()
        self._users: Counter[str] = Counter()
        self._states: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._closed = False
        try:
            contents = _MergedShards(index)
            for number, shard in enumerate(index.shards):
                with self._in_use(shard) as opened:
                    contents.add(number, shard, opened)
            contents.check_number()
            self.shard_of = contents.shard_of
            self.differing_metadata = tuple(contents.differing_metadata)
            self._other_objects = tuple(contents.other_objects)
            super().__init__(
                index.path,
                contents.raw,
                contents.metadata,
                tuple(contents.remarks()),
                files=[index.path.parent / shard for shard in index.shards],
                surroundings=replace(
                    surroundings, hf_config={**surroundings.hf_config, **contents.hf_config}
                ),
                foreign=tuple(contents.foreign),
            )
        except BaseException:
            self.close()
            raise

    @property
    def other_objects(self) -> tuple[str, ...]:
        return self._other_objects

    def read_key(self, key: str) -> torch.Tensor:
        with self._shard_with(key) as shard:
            return shard.read_key(key)

    def view_key(self, key: str) -> torch.Tensor:
        with self._shard_with(key) as shard:
            return shard.view_key(key)

    def view_key_span(self, key: str, start: int, stop: int) -> torch.Tensor:
        with self._shard_with(key) as shard:
            return shard.view_key_span(key, start, stop)

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        tensors: list[torch.Tensor] = []
        for _, group in groupby(keys, self.shard_of.get):
            shard_keys = list(group)
            with self._shard_with(shard_keys[0]) as shard:
                tensors += shard.view_keys(shard_keys)
        return tensors

    def _shard_with(self, key: str) -> AbstractContextManager[FileCheckpoint]:
        shard = self.shard_of.get(key)
        if shard is None:
            raise CheckpointError("{file} has no tensor {key!r}.", file=self.path.name, key=key)
        return self._in_use(shard)

    def open_shard(self, shard: str) -> FileCheckpoint:
        """Open a shard; the caller closes it.

        Raises:
            CheckpointError: the shard cannot be opened, or was changed since it was opened first.
        """
        name = self.index.path.name
        with CheckpointError.on_os_error(
            "{shard} cannot be read: {reason}. Download the file again, or open another shard "
            "alone.",
            shard=shard,
        ):
            opened = self._open_file(self.index.locate(shard))
        state = opened.source.state
        if self._states.setdefault(shard, state) != state:
            opened.close()
            raise CheckpointError(
                "{shard} was changed by another program since {index} was opened. Open it again.",
                shard=shard,
                index=name,
            )
        if opened.format != self.format:
            opened.close()
            raise CheckpointError(
                "{shard} is a {format} checkpoint, but {index} is an index of {others} files. "
                "Convert them to one format.",
                shard=shard,
                format=opened.format,
                index=name,
                others=self.format,
            )
        return opened

    def missing_nbytes(self, names: Iterable[str]) -> int:
        by_shard: dict[str, list[str]] = {}
        for name in names:
            pair = self.tensors[name].pair
            for key in pair or (name,):
                by_shard.setdefault(self.shard_of[key], []).append(key)
        nbytes = 0
        for shard, keys in by_shard.items():
            with self._in_use(shard) as opened:
                nbytes += opened.missing_nbytes_of_keys(keys)
        return nbytes

    def fetch(self, monitor: Monitor) -> None:
        with monitor.plan(sum(size for size, _ in self._states.values())):
            for shard in self.index.shards:
                with self.open_shard(shard) as opened:
                    opened.fetch(monitor)

    @cached_property
    def model_files_folder(self) -> Path:
        with self._in_use(self.index.shards[0]) as opened:
            return opened.model_files_folder

    def check(self) -> None:
        # The others are checked when they are opened again.
        with self._lock:
            shards = list(self._open)
        for shard in shards:
            with self._in_use(shard) as opened:
                opened.check()

    def file_states(self) -> Mapping[str, tuple[int, int]]:
        return self._states

    def fingerprint(self, monitor: Monitor) -> str:
        lines, shards = hashlib.sha256(), sorted(self.index.shards)
        executor, digest_of = current_executor(), self._shard_digest
        digests = (
            executor.map(digest_of, shards, monitor)
            if executor is not None
            else run(lambda shard: digest_of(shard, monitor), shards)
        )
        for shard, digest in zip(shards, digests, strict=True):
            lines.update(f"{digest}  {shard}\n".encode())
        return f"{FINGERPRINT_PREFIX}{lines.hexdigest()}"

    def _shard_digest(self, shard: str, monitor: Monitor) -> str:
        with self._in_use(shard) as opened:
            return opened.fingerprint(monitor).removeprefix(FINGERPRINT_PREFIX)

    @contextmanager
    def _in_use(self, shard: str) -> Iterator[FileCheckpoint]:
        """Yield an open shard from the LRU cache, opening it if necessary, and keep it open.

        Other threads can use it and other shards at the same time: reading values may take long.
        """
        with self._lock:
            if self._closed:
                raise CheckpointError("{file} is closed. Open it again.", file=self.path.name)
            opened = self._open.get(shard)
            if opened is None:
                opened = self._open[shard] = self.open_shard(shard)
            self._open.move_to_end(shard)
            self._users[shard] += 1
        try:
            yield opened
        finally:
            with self._lock:
                self._users[shard] -= 1
                self._close_unused()

    def close(self) -> None:
        """Close all shards; one that another thread reads is closed when it has been read."""
        with self._lock:
            self._closed = True
            self._close_unused()

    def _close_unused(self) -> None:
        """Close shards that are not in use: all if this is closed, else those beyond the limit."""
        surplus = len(self._open) - (0 if self._closed else MAX_OPEN_SHARDS)
        if surplus <= 0:
            return
        unused = [shard for shard in self._open if not self._users[shard]]
        with ExitStack() as shards:  # closes all of them, even if one fails
            for shard in unused[:surplus]:
                shards.callback(self._open.pop(shard).close)


class _MergedShards:
    """The tensors of all shards, which are added one by one and compared with the index."""

    def __init__(self, index: ShardIndex) -> None:
        self._index = index
        self._listed_keys: dict[str, list[str]] = {}
        for key, shard in index.weight_map.items():
            self._listed_keys.setdefault(shard, []).append(key)
        self._warnings: list[str] = []
        self._declared: set[int] = set()  # numbers of tensors
        self.shard_of: dict[str, str] = {}
        self.raw: dict[str, RawTensor] = {}
        self.metadata: dict[str, str] = {}
        self.foreign: dict[str, None] = {}
        self.differing_metadata: dict[str, None] = {}
        self.hf_config: dict[str, int] = {}
        self.other_objects: dict[str, None] = {}

    def add(self, number: int, shard: str, opened: Checkpoint) -> None:
        if self._index.parts:
            self._declared.add(check_part(opened, number, self._index))
        for key in self._listed_keys.get(shard, ()):
            if key not in opened.raw:
                raise CheckpointError(
                    "{index} lists {key!r} in {shard}, which does not contain it. Download "
                    "both files again.",
                    index=self._index.path.name,
                    key=key[:200],
                    shard=shard,
                )
        for key, tensor in opened.raw.items():
            other = self.shard_of.setdefault(key, shard)
            if other != shard:
                raise CheckpointError(
                    "{index}: both {one} and {other} hold {key!r}. Download the files again.",
                    index=self._index.path.name,
                    one=other,
                    other=shard,
                    key=key[:200],
                )
            # Views contain memory addresses, which are not comparable between shards.
            view: Hashable = tensor.view and (number, tensor.view)
            self.raw[key] = tensor._replace(view=view)
        for key, text in opened.metadata.items():
            if self.metadata.setdefault(key, text) != text and key != CHECKSUMS_KEY:
                self.differing_metadata[key] = None
        self.metadata |= opened.metadata
        self.foreign |= dict.fromkeys(opened.foreign)
        self.hf_config |= opened.hf_config
        self.other_objects |= dict.fromkeys(opened.other_objects)
        if opened.raw or not self._index.parts:  # the first part may have the metadata alone
            self._warnings += opened.file_warnings

    def check_number(self) -> None:
        """Check the number of tensors in the parts of a split file."""
        wrong = self._declared - {len(self.raw), -1}
        if wrong:
            raise CheckpointError(
                "{name}: its parts hold {found:,} tensors, and declare {declared:,}. Download "
                "all parts again.",
                name=self._index.path.name,
                found=len(self.raw),
                declared=wrong.pop(),
            )

    def remarks(self) -> Iterator[str]:
        yield from self._warnings
        index, listed_in = self._index, self._index.weight_map
        unlisted = [] if index.parts else [key for key in self.raw if key not in listed_in]

        def key_in_shard(key: str) -> str:
            return tr("{key!r} in {shard}", key=key[:200], shard=self.shard_of[key])

        if unlisted:
            yield tr(
                "Tensors that the index does not list are pruned and saved with the others; the "
                "index of a copy with the same shards does not list them either: {tensors}.",
                tensors=listed(unlisted, key_in_shard),
            )
        patterns = {re.sub(r"\d+", "0", shard) for shard in index.shards}
        others = {path.name for path in index.path.parent.iterdir()}.difference(index.shards)
        unlisted_files = sorted(name for name in others if re.sub(r"\d+", "0", name) in patterns)
        if unlisted_files:
            yield tr(
                "Files that belong to the index by their names, but not by its content, are "
                "neither opened nor copied: {files}.",
                files=listed(unlisted_files),
            )
        claimed = index.metadata.get("total_size")
        sizes = {key: size_in_bytes(*self.raw[key][:2]) for key in listed_in}
        by_view: dict[Hashable, int] = {self.raw[key].view or key: sizes[key] for key in sizes}
        distinct = sum(by_view.values())
        if isinstance(claimed, int | float) and claimed not in (distinct, sum(sizes.values())):
            yield tr(
                "The index gives a total size of {claimed} bytes; it is {size}.",
                claimed=short(claimed),
                size=distinct,
            )
