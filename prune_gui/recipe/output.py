"""Where and how a pruned checkpoint is written: a file or a folder, in one of several forms."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from prune_gui.checkpoint import Checkpoint, ShardedCheckpoint, is_folder
from prune_gui.checkpoint.file_format import FileFormat
from prune_gui.checkpoint.formats import format_by_suffix, format_named, format_to_write
from prune_gui.checkpoint.model_files import is_model_folder
from prune_gui.checkpoint.named_code import runs_programs
from prune_gui.checkpoint.remote.access import check_writable
from prune_gui.checkpoint.sharded.writing import index_name, is_clearly_folder
from prune_gui.checkpoint.torch.format import TENSORS_ONLY, TORCH
from prune_gui.checkpoint.write.documents import DOCUMENT_SUFFIXES
from prune_gui.errors import CheckpointError
from prune_gui.location import Location

Form = Literal["finalized", "reparametrized", "masks", "compact"]
FORMS: tuple[Form, ...] = get_args(Form)


def with_ending(name: str, ending: str = "pruned") -> str:
    """Return a name with an ending, or with the next number if it has that ending already."""
    before = re.fullmatch(rf"(.+-{ending})(?:-(\d{{1,6}}))?", name)
    return f"{before[1]}-{int(before[2] or 1) + 1}" if before else f"{name}-{ending}"


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a pruned checkpoint is written; `export` describes each of them."""

    form: Form = "finalized"
    overwrite: bool = False
    shard_size: int | None = None
    compressed: bool = False
    zero_moments: bool = False
    allow_unloadable: bool = False
    tensors_only: bool | None = None
    model_files: bool = True
    copy_code: bool = False


DEFAULTS: Final = OutputOptions()


@dataclass(frozen=True, slots=True)
class OutputPath:
    """The output path and the files to write.

    Attributes:
        main: the name of the file; for shards, of their index.
        pipeline: the folder to which the whole pipeline is written, of which this is one model.
    """

    location: Location
    is_folder: bool
    format: FileFormat
    main: str
    shard_size: int | None = None
    is_single: bool = False
    pipeline: Path | None = None

    @property
    def is_sharded(self) -> bool:
        """Whether the tensors are divided into shards with an index."""
        return self.is_folder and not self.is_single

    @property
    def path(self) -> Path:
        """The file or folder; for a remote one, the local path that stands for its URL."""
        return self.location.path

    @property
    def url(self) -> str | None:
        """The URL of a remote output; None for a local one."""
        return self.location.url

    @property
    def file(self) -> Path:
        """The file with the weights; for shards, their index."""
        return self.path / self.main if self.is_folder else self.path

    @property
    def is_tensors_only(self) -> bool:
        """Whether a torch file gets the tensors alone, without other objects of its source."""
        return self.format is TENSORS_ONLY

    @property
    def is_compressible(self) -> bool:
        """Whether the values can be compressed; programs map shards into memory."""
        return not self.is_folder and self.format.write_compressed is not None

    @classmethod
    def of(
        cls, checkpoint: Checkpoint, out: str | os.PathLike[str], options: OutputOptions = DEFAULTS
    ) -> OutputPath:
        """Return the output path that `out` means for a pruned `checkpoint`; see `export`."""
        is_local = Location.of(out).url is None and checkpoint.url is None
        if checkpoint.pipeline and is_local and options.form != "masks" and is_folder(out):
            model = cls._of(checkpoint, f"{Path(out, checkpoint.state_dict)}{os.sep}", options)
            target = replace(model, pipeline=Path(out))
        else:
            target = cls._of(checkpoint, out, options)
        tensors_only = options.tensors_only
        if tensors_only is None:
            tensors_only = bool(runs_programs(checkpoint.foreign))
        is_torch = target.format is TORCH
        return replace(target, format=TENSORS_ONLY) if tensors_only and is_torch else target

    @classmethod
    def _of(
        cls, checkpoint: Checkpoint, out: str | os.PathLike[str], options: OutputOptions
    ) -> OutputPath:
        """Return `of` before the objects around the tensors.

        A name of a file, also with a wrong suffix, is a folder only if the input is in that of a
        model.
        """
        location = Location.of(out)
        path, shard_size = location.path, options.shard_size
        if location.url is not None:
            check_writable(location.url)
        sharded = shard_size is not None or isinstance(checkpoint, ShardedCheckpoint)
        if sharded and is_folder(out):
            main = index_name(checkpoint, shard_size)
            return cls(location, True, format_named(checkpoint.format), main, shard_size)
        if shard_size is not None:
            raise CheckpointError(
                "{path} is the name of a single file. Specify a folder for the shards.", path=out
            )
        name = checkpoint.path.name
        is_no_file = is_clearly_folder(out) and format_by_suffix(path) is None
        is_model = is_folder(out) and is_model_folder(checkpoint.path.parent)
        if options.form != "masks" and (is_no_file or is_model):
            file_format = format_by_suffix(checkpoint.path)
            if file_format is not None and file_format.name == checkpoint.format:
                return cls(location, True, file_format, name, is_single=True)
        files = [os.path.realpath(file) for file in checkpoint.files]
        if len(files) > 1 and os.path.realpath(path) in files:
            raise CheckpointError(
                "{path} is one of the shards of the open checkpoint, which would be damaged. "
                "Choose another name.",
                path=path,
            )
        return cls(location, False, _file_format(checkpoint, out, path), path.name)


def _file_format(checkpoint: Checkpoint, out: str | os.PathLike[str], path: Path) -> FileFormat:
    suffix = path.suffix.lower()
    is_like_input = (
        suffix == checkpoint.path.suffix.lower()
        and suffix not in DOCUMENT_SUFFIXES
        and not isinstance(checkpoint, ShardedCheckpoint)
        and not os.fspath(out).endswith((os.sep, "/"))
    )
    if format_by_suffix(path) is None and path.is_dir():
        raise CheckpointError("{path} is a folder. Specify a file name.", path=path)
    if is_like_input and format_by_suffix(path) is None:
        return format_named(checkpoint.format)
    return format_to_write(path)
