"""Writing a resolution as a pruned checkpoint that other programs can load."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from prune_gui.checkpoint import Checkpoint, TensorWriter
from prune_gui.checkpoint.sharded.writing import FolderOutput, ShardsOutput
from prune_gui.checkpoint.write.content import (
    ANY_FINGERPRINT,
    CHECKSUMS_KEY,
    LateText,
    fingerprint_beside,
)
from prune_gui.checkpoint.write.writing import FileOutput
from prune_gui.cluster import use_cluster
from prune_gui.errors import CheckpointError, RecipeError
from prune_gui.executor import current_executor, use_executor
from prune_gui.language import suggestion
from prune_gui.location import Location
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.recipe import extra_files
from prune_gui.recipe.compaction.plan import (
    CompactPlan,
    check_format,
    compact_plan,
    compact_tensors,
    folded_units,
    remaining_pruned,
)
from prune_gui.recipe.correction.corrected_values import check_uncorrected
from prune_gui.recipe.form_tensors import parts, with_zeroed_moments
from prune_gui.recipe.output import FORMS, Form, OutputOptions, OutputPath
from prune_gui.recipe.pipelines import whole_pipeline
from prune_gui.recipe.recipe import INPUT_KEY, metadata_of
from prune_gui.recipe.resolution import Resolution

if TYPE_CHECKING:
    from prune_gui.checkpoint.remote.destination import Upload
    from prune_gui.cluster import Client


def export(
    resolution: Resolution,
    out: str | os.PathLike[str],
    form: Form = "finalized",
    overwrite: bool = False,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
    shard_size: int | None = None,
    compressed: bool = False,
    zero_moments: bool = False,
    allow_unloadable: bool = False,
    cluster: Client | None = None,
    tensors_only: bool | None = None,
    model_files: bool = True,
    copy_code: bool = False,
) -> None:
    """Write the pruned checkpoint atomically, as a file or as a folder that programs load.

    A folder also gets config.json, the tokenizer and similar files of the input (see
    `find_model_files`), together with the weights. The file contains the recipe and a checksum of
    each tensor; `prune_gui.recipe.verify` compares them.

    A reparametrized file and its loader script are replaced together; an error leaves both
    unchanged. The script is renamed first, and only if it differs from the existing one, which
    happens if the file gets another state dict. A process that is killed between the two renames
    leaves the new script beside the old file.

    Args:
        out: the output path, or the URL of an object in a store (s3, gs or az). A file: its suffix
            (``.safetensors``, ``.pt``, ...) determines the format; any other suffix of the input,
            such as ``.pth.tar``, or none, keeps its format. A folder (it exists, or the name has
            none of these suffixes): shards as in the input, each with the same tensors, and
            their index; of a single file in the folder of a model, a file with its name. If the
            folder of a diffusers pipeline was opened, the whole pipeline, with the other models.
        form: ``finalized``: same keys, order and dtypes, pruned elements exactly +0.
            ``reparametrized``: ``X_orig`` and ``X_mask`` in place of each pruned ``X``, as
            `torch.nn.utils.prune` keeps them, and a Python script that loads the file into a model
            (see `loader_path`). ``masks``: a boolean tensor per pruned parameter. ``compact``: the
            tensors without the units that are pruned in all tensors of their coupled group, other
            pruned elements exactly +0. If `out` is a folder, it gets the config.json that fits. If
            `out` is a file, the config.json that fits is written beside it, unless there is one
            already. If layers keep different numbers of units, a Python script that loads the file
            is written with it.
        overwrite: whether existing files may be replaced; for a folder, its shards. Remote folders
            are never replaced.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.
        shard_size: split the checkpoint again, into shards of at most this many bytes (or of one
            tensor, if that is larger), named as Hugging Face does.
        compressed: compress the values with deflate; for a single ``.pt``, ``.pth``, ``.bin`` or
            ``.ckpt``. `torch.load` reads the file, but not with ``mmap=True``.
        zero_moments: in the finalized form of a torch file, also set the moments of pruned elements
            to zero in the states of optimizers, such as ``exp_avg`` of Adam.
        allow_unloadable: write a compact form even if no known program loads it; units that
            programs can only mask are then removed, too.
        cluster: a client of a Dask cluster, whose workers then write the shards of a folder, which
            is remote, or which they share with this machine at the same path; the bytes are the
            same. Single files, corrected weights and the compact form are written here. None: write
            everything here.
        tensors_only: write a torch file as a plain state dict of tensors, which `torch.load`
            accepts with ``weights_only=True``, without the other objects of the input. False: the
            finalized form is a copy of the input, and so is all code that it names. None: True if
            the input names code that is known to run programs; see `Checkpoint.foreign`.
        model_files: whether a folder gets config.json, the tokenizer and similar files of the
            input. Those that the compact form changes are always written; masks have none.
        copy_code: whether they include files that programs run, such as the Python files of models
            whose config.json has an ``auto_map``. None replaces a loader script.

    Raises:
        RecipeError: the form is unknown, there is nothing to write in it, or no program would load
            it.
        CheckpointError: the file cannot be written; existing files are unchanged.
        ClusterError: the cluster was lost; existing files are unchanged.
    """
    if form not in FORMS:
        raise RecipeError(
            "{form!r} is no form{suggestion}. Use one of {forms}.",
            form=form,
            suggestion=suggestion(form, FORMS),
            forms=", ".join(FORMS),
        )
    options = OutputOptions(
        form=form,
        overwrite=overwrite,
        shard_size=shard_size,
        compressed=compressed,
        zero_moments=zero_moments,
        allow_unloadable=allow_unloadable,
        tensors_only=tensors_only,
        model_files=model_files,
        copy_code=copy_code,
    )
    monitor = Monitor(progress, cancel)
    with use_cluster(cluster):
        write(resolution, out, options, monitor)


def write(
    resolution: Resolution, out: str | os.PathLike[str], options: OutputOptions, monitor: Monitor
) -> None:
    """Write the pruned checkpoint as `export` does, with a monitor for progress and cancelling."""
    checkpoint = resolution.checkpoint
    checkpoint.check_fetch(checkpoint.tensors)
    target = OutputPath.of(checkpoint, out, options)
    if options.compressed and target.is_folder:
        raise CheckpointError(
            "{folder}: shards cannot be compressed, because programs map them into memory. "
            "Save without compression, or as a single file.",
            folder=target.location,
        )
    form = options.form
    if form == "compact":
        check_format(target.format, target.file.name)
    entries = parts_to_write(resolution, options, monitor)
    if options.zero_moments:
        if form != "finalized" or target.is_folder or target.is_tensors_only:
            raise CheckpointError(
                "Moments can be set to zero only in the finalized form, in a single file with "
                "all objects of the input."
            )
        entries = with_zeroed_moments(entries, resolution)
    files = extra_files_of(resolution, target, options)
    on_executor = is_written_by_tasks(resolution, target, form)
    with (
        use_executor(current_executor() if on_executor else None),
        monitor.in_charge(),
        whole_pipeline(checkpoint, target, options, monitor) as target,
        _upload_to(checkpoint, target, overwrite=options.overwrite) as upload,
    ):
        if upload is not None:
            target = replace(target, location=Location(upload.folder / target.location.name))
        output = output_of(resolution, target, options, entries)
        output = replace(output, extra_files=files, upload=upload)
        written = output.check()
        fingerprinted = sum(info.nbytes for info in checkpoint.tensors.values())
        fingerprinted += checkpoint.nbytes_outside()
        at_once = upload is not None and target.is_sharded
        with (
            monitor.plan(fingerprinted + (2 if upload is None else 3) * written),
            fingerprint_beside(checkpoint, monitor, at_once=at_once) as fingerprint,
        ):
            metadata: dict[str, str | LateText] = {
                **metadata_for(resolution, options, ANY_FINGERPRINT),
                INPUT_KEY: fingerprint,
                CHECKSUMS_KEY: "",  # the writer fills it in
            }
            output.write(metadata, monitor)


def output_of(
    resolution: Resolution,
    target: OutputPath,
    options: OutputOptions,
    tensors: Sequence[TensorWriter],
) -> FileOutput:
    """Return what is written, without the other files of a model."""
    kind = FolderOutput if target.is_single else FileOutput
    output = (ShardsOutput if target.is_sharded else kind)(
        path=target.path if target.is_sharded else target.file,
        tensors=tensors,
        template=None if options.form == "masks" else resolution.checkpoint,
        source=resolution.checkpoint,
        format=target.format,
        overwrite=options.overwrite,
    )
    if isinstance(output, ShardsOutput):
        return replace(output, shard_size=target.shard_size)
    return replace(output, compressed=options.compressed)


def _upload_to(
    checkpoint: Checkpoint, target: OutputPath, *, overwrite: bool
) -> AbstractContextManager[Upload | None]:
    if target.url is None:
        return nullcontext()
    if target.path in checkpoint.files:
        raise CheckpointError("{url} is open. Save under another name.", url=target.url)
    from prune_gui.checkpoint.remote.destination import uploading  # optional

    return uploading(target.url, target.main, is_folder=target.is_folder, overwrite=overwrite)


def is_written_by_tasks(resolution: Resolution, target: OutputPath, form: Form) -> bool:
    """Return whether an executor (see `prune_gui.executor`), if there is one, writes the shards."""
    return target.is_sharded and form != "compact" and not resolution.corrections


def parts_to_write(
    resolution: Resolution, options: OutputOptions, monitor: Monitor | None = None
) -> list[TensorWriter]:
    """Return the tensors of a form."""
    if options.form == "compact":
        plan = _plan(resolution, options, monitor)
        return list(compact_tensors(resolution, plan))
    if options.form != "finalized":
        check_uncorrected(resolution.corrections)
    tensors = list(parts(resolution, options.form))
    if not tensors:
        raise RecipeError("There are no masks to write: no step targets any parameter.")
    return tensors


def metadata_for(
    resolution: Resolution, options: OutputOptions, fingerprint: str
) -> dict[str, str]:
    """Return the metadata to add to those of the input."""
    if options.form == "compact":
        plan = _plan(resolution, options)
        pruned, folded = remaining_pruned(resolution, plan), folded_units(plan)
    else:
        pruned = {name: resolution.counts[name][0] for name in resolution.layers}
        folded = {}
    recordings = {
        correction.method.recording.written: correction.digest
        for correction in resolution.corrections
    }
    metadata = metadata_of(resolution.recipe, options.form, fingerprint, pruned, folded, recordings)
    return {**metadata, **resolution.provenance}


def extra_files_of(
    resolution: Resolution, target: OutputPath, options: OutputOptions
) -> dict[str, bytes]:
    """Return the contents of the files to write beside the weights, by name."""
    files = extra_files.copied_files(resolution.checkpoint, target, options)
    if options.form == "compact":
        plan = _plan(resolution, options)
        if plan.tokens and not (target.is_folder and plan.config is not None):
            raise RecipeError(
                "{file}: without some tokens, the tokenizer and config.json change, too. Save "
                "to a folder, from a checkpoint with a config.json beside it.",
                file=target.path.name,
            )
        is_folder = target.is_folder
        files = (
            extra_files.adapted_files(files, plan)
            if is_folder
            else extra_files.config_beside(plan, target.path)
        )
    return files | loader_script(resolution, target, options)


def loader_script(
    resolution: Resolution, target: OutputPath, options: OutputOptions
) -> dict[str, bytes]:
    """Return the content of the loader script by its name; {} if the form needs none."""
    checkpoint, name = resolution.checkpoint, extra_files.loader_path(target).name
    if options.form == "reparametrized":
        return {name: extra_files.loader_text(checkpoint, target).encode()}
    if options.form == "compact":
        plan = _plan(resolution, options)
        if plan.needs_loader:
            text = extra_files.loader_text(
                checkpoint, target, compact=True, attributes=plan.attributes, fields=plan.fields
            )
            return {name: text.encode()}
    return {}


def _plan(
    resolution: Resolution, options: OutputOptions, monitor: Monitor | None = None
) -> CompactPlan:
    return compact_plan(resolution, monitor or Monitor(), allow_unloadable=options.allow_unloadable)
