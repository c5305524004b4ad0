"""Arguments and options that several commands share, and their parsing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import click

from prune_gui.cli.printing import job, print_line
from prune_gui.cluster import open_cluster, use_cluster
from prune_gui.errors import DeviceError
from prune_gui.location import Location
from prune_gui.number_formats import parse_bytes
from prune_gui.session.end_signals import end_signals

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.cluster import Client

T = TypeVar("T")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class _Place(click.Path):
    """A path that is not empty. Whether the file exists is checked when it is opened.

    Args:
        remote: whether it may be the URL of a checkpoint, whose location is the value, or of an
            output, which stays as it is.
        in_file_url: whether it may be the `file:` URL of a path, which some file managers pass.
    """

    def __init__(
        self, remote: Literal["no", "checkpoint", "output"] = "no", *, in_file_url: bool = False
    ) -> None:
        super().__init__()
        self.remote = remote
        self.in_file_url = in_file_url

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Location | Path | str:
        """Return the location of a checkpoint, a path, or the text of an output."""
        text = os.fspath(value)
        if self.in_file_url and text[:5].lower() == "file:" and not os.path.lexists(text):
            text = self._path_of_url(text, param, ctx)
        if not text:
            self.fail("The path is empty.", param, ctx)
        location = Location.of(text)
        if self.remote == "checkpoint":
            return location
        if location.url is not None:
            if self.remote == "no":
                self.fail(f"{value!r} is a URL. Only checkpoints can be remote.", param, ctx)
            from prune_gui.checkpoint.remote.access import check_writable  # only for URLs

            check_writable(location.url)
        return text if self.remote == "output" else location.path

    def _path_of_url(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            url = urlsplit(text)
        except ValueError as error:
            self.fail(f"{text!r} is not a URL: {error}.", param, ctx)
        if url.netloc.lower() not in ("", "localhost", gethostname().lower()):
            self.fail(f"{text!r} is on another machine.", param, ctx)
        octets = unquote_to_bytes(os.fsencode(url.path))
        if b"\0" in octets:
            self.fail(f"{text!r} is not the URL of a file.", param, ctx)
        path = os.fsdecode(octets)
        return path.lstrip("/") if os.name == "nt" else path


file = _Place()
file_or_url = _Place(in_file_url=True)
checkpoint_file = _Place("checkpoint")
checkpoint_or_url = _Place("checkpoint", in_file_url=True)
target = _Place("output")
one_state = click.option(
    "--state",
    metavar="NAME",
    help="State dict of a training checkpoint to open; the largest by default.",
)
own_table = click.option(
    "--table",
    type=file,
    help="Table of the architecture, a YAML file, that tells the units of the network.",
)
model_files = click.option(
    "--model-files/--no-model-files",
    default=True,
    help="Copy config.json, the tokenizer and similar files into a folder (the default).",
)
copy_code = click.option(
    "--copy-code",
    is_flag=True,
    help="Also copy files of the model that programs run, such as *.py, which an auto_map in "
    "config.json names.",
)
unloadable = click.option(
    "--allow-unloadable",
    is_flag=True,
    help="Write the compact form even if no known program loads it.",
)
tensors_only = click.option(
    "--tensors-only/--no-tensors-only",
    default=None,
    help="Write a torch file as a plain state dict, without other objects and the code that they "
    "name. By default, only if the file names code that is known to run programs.",
)
cluster_address = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Address of the scheduler of a Dask cluster whose workers read and write the files, such "
    "as tcp://host:8786; or local:N for N processes on this machine.",
)


def parsed_by(parse: Callable[[str], T]) -> Callable[..., T | None]:
    """Return a callback for an option whose text is parsed; ValueError means wrong usage."""

    def callback(_ctx: click.Context, _param: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else parse(text)
        except (ValueError, DeviceError) as error:
            raise click.BadParameter(str(error)) from error

    return callback


def _use_device(name: str) -> None:
    from prune_gui.pruning.devices import find_device, use_device  # torch: slow to import

    find_device(name)
    use_device(name)


device = click.option(
    "--device",
    callback=parsed_by(_use_device),
    expose_value=False,
    metavar="DEVICE",
    help="Where corrections of kept weights are computed: automatic (the graphics card if there is "
    "one, else the processor; the default), cpu, gpu, or a device of torch such as cuda:1.",
)
own_methods = click.option(
    "--methods",
    "own",
    type=file,
    multiple=True,
    help="Python file with pruning methods. The file is run. Can be given several times.",
)
form = click.option(
    "--form",
    type=click.Choice(["finalized", "reparametrized", "masks", "compact"]),
    default="finalized",
    show_default=True,
    help="finalized: zeros in place; reparametrized: X_orig and X_mask as in torch; masks: the "
    "masks alone; compact: without the units that are pruned in all of their tensors.",
)
shard_size = click.option(
    "--shard-size",
    callback=parsed_by(parse_bytes),
    metavar="SIZE",
    help="Split the checkpoint into shards of this size, such as 500MB, 5GB or 2GiB, in the folder "
    "OUT.",
)


def use_methods(own: Sequence[Path]) -> None:
    """Load the methods of installed packages, then those of the files that the user named."""
    from prune_gui.pruning.plugins import load_methods, use_installed  # pydantic: slow to import

    for problem in use_installed():
        print_line(f"prune-gui: {problem}", err=True)
    for path in own:
        load_methods(path)


@contextmanager
def opened_checkpoint(path: os.PathLike[str], state: str | None = None) -> Iterator[Checkpoint]:
    """Open a checkpoint during the block, and print its warnings on standard error."""
    from prune_gui.checkpoint import open_checkpoint  # slow to import

    with open_checkpoint(path, state) as opened:
        print_warnings(opened)
        yield opened


def print_warnings(checkpoint: Checkpoint) -> None:
    """Print the warnings of a checkpoint on standard error, one line each."""
    for warning in checkpoint.warnings:
        print_line(f"Warning: {checkpoint.path.name}: {warning}", err=True)


@contextmanager
def on_cluster(where: str | None) -> Iterator[Client | None]:
    """Run large tasks on the workers of a cluster within a block."""
    if where is None:
        yield None
        return
    opened = ExitStack()
    try:
        with job("Connecting to the cluster", with_bar=False) as (_, stop):
            client = opened.enter_context(open_cluster(where, stop))
        with use_cluster(client):
            yield client
    finally:
        with end_signals(lambda _: None):  # else processes of the cluster could be left
            opened.close()
