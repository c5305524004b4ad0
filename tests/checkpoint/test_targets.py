"""Valid and invalid targets, and the attributes that a new file keeps from the old one."""

import os
import socket
import sys
from pathlib import Path

import pytest
from system_faults import raising
from written_files import contents

from prune_gui.checkpoint.write import atomic, temp_files
from prune_gui.checkpoint.write.atomic import replacing_folder, replacing_together
from prune_gui.errors import CheckpointError

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs links, pipes and owners")


def replace(target: Path, octets: bytes = b"new", *, overwrite: bool = True) -> None:
    with replacing_together({target: len(octets)}, overwrite=overwrite) as (draft,):
        draft.write_bytes(octets)


def replace_folder(target: Path, *, overwrite: bool = True) -> None:
    with replacing_folder(target, nbytes=1, overwrite=overwrite, kept_files=lambda _: ()) as folder:
        (folder / "shard").write_bytes(b"new")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@posix_only
@pytest.mark.parametrize("relative", [True, False])
def test_a_link_stays_and_the_file_that_it_points_to_is_replaced(tmp_path, relative):
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "real.pt", tmp_path / "link.pt"
    real.write_bytes(b"old")
    link.symlink_to("elsewhere/real.pt" if relative else real)
    (tmp_path / "second.pt").symlink_to("link.pt")
    replace(tmp_path / "second.pt")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert names(tmp_path) == {"elsewhere", "link.pt", "second.pt"}
    assert names(tmp_path / "elsewhere") == {"real.pt"}


@posix_only
@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("leads_to", ["nowhere.pt", "link.pt"])
def test_a_broken_link_is_refused(tmp_path, overwrite, leads_to):
    link = tmp_path / "link.pt"
    link.symlink_to(leads_to)
    with pytest.raises(CheckpointError, match=r"link\.pt is a link to a file that does not"):
        replace(link, overwrite=overwrite)
    with pytest.raises(CheckpointError, match=r"link\.pt is a link to a file that does not"):
        replace_folder(link, overwrite=overwrite)
    assert names(tmp_path) == {"link.pt"}


@posix_only
@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "link to a pipe"])
def test_a_target_that_is_not_a_regular_file_is_refused(tmp_path, monkeypatch, overwrite, kind):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    target = Path("odd.pt")
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(target))
    elif kind == "device":
        target.symlink_to("/dev/null")
    else:
        os.mkfifo("pipe")
        target.symlink_to("pipe")
    before = names(tmp_path)
    with pytest.raises(CheckpointError, match=r"odd\.pt is not a regular file"):
        replace(target, overwrite=overwrite)
    assert names(tmp_path) == before


@posix_only
def test_mode_and_group_of_a_replaced_file_are_kept(tmp_path):
    target = tmp_path / "m.pt"
    target.write_bytes(b"old")
    groups = [*os.getgroups(), *([12345] if os.geteuid() == 0 else [])]
    os.chown(target, -1, groups[-1])
    target.chmod(0o640)
    replace(target)
    status = target.stat()
    assert (status.st_gid, status.st_mode & 0o7777) == (groups[-1], 0o640)


@posix_only
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs root")
def test_the_owner_of_a_replaced_file_is_kept(tmp_path):
    target = tmp_path / "m.pt"
    target.write_bytes(b"old")
    os.chown(target, 12345, 12346)
    target.chmod(0o4640)
    replace(target)
    status = target.stat()
    assert (status.st_uid, status.st_gid) == (12345, 12346)
    assert status.st_mode & 0o7777 == 0o4640


@posix_only
def test_an_owner_that_cannot_be_set_is_no_error(tmp_path, monkeypatch):
    for name in ("chown", "setxattr", "listxattr", "chmod"):
        monkeypatch.setattr(
            os, name, raising(PermissionError(1, "Operation not permitted")), raising=False
        )
    (tmp_path / "m.pt").write_bytes(b"old")
    replace(tmp_path / "m.pt")
    assert (tmp_path / "m.pt").read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="only Linux has them in os")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_extended_attributes_of_a_replaced_target_are_kept(tmp_path, kind):
    target = tmp_path / "m.pt"
    if kind == "file":
        target.write_bytes(b"old")
    else:
        target.mkdir()
    try:
        os.setxattr(target, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has none")
    (replace if kind == "file" else replace_folder)(target)
    assert os.getxattr(target, "user.note") == b"mine"


@pytest.fixture(params=["as the system can", "with links", "without"])
def ways(request, monkeypatch):
    """Force each of the ways to rename a file without replacing another one."""
    refuse = raising(OSError(38, "Function not implemented"))
    if request.param != "as the system can":
        monkeypatch.setattr(temp_files, "_renameat2", refuse)
    if request.param == "without":
        monkeypatch.setattr(temp_files.os, "link", refuse)


def test_a_file_that_appears_during_writing_is_not_replaced(tmp_path, monkeypatch, ways):
    target = tmp_path / "m.pt"
    check = atomic._resolved_target

    def check_before_it_appears(path, *, overwrite):
        real = check(path, overwrite=overwrite)
        if len(names(tmp_path)) == 1:  # the draft exists: this is the last check
            target.write_bytes(b"of another program")
        return real

    monkeypatch.setattr(atomic, "_resolved_target", check_before_it_appears)
    with pytest.raises(CheckpointError, match=r"m\.pt already exists"):
        replace(target, overwrite=False)
    assert target.read_bytes() == b"of another program"
    assert names(tmp_path) == {"m.pt"}


def test_a_new_file_is_renamed_to_its_target(tmp_path, ways):
    replace(tmp_path / "m.pt", overwrite=False)
    assert (tmp_path / "m.pt").read_bytes() == b"new"
    assert names(tmp_path) == {"m.pt"}


@posix_only
def test_a_folder_that_gets_files_during_writing_is_not_replaced(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.mkdir()
    keep = atomic.keep_attributes

    def keep_while_it_fills_up(old, new):
        (target / "mine").write_bytes(b"mine")
        keep(old, new)

    monkeypatch.setattr(atomic, "keep_attributes", keep_while_it_fills_up)
    with pytest.raises(CheckpointError, match="was not written"):
        replace_folder(target, overwrite=False)
    assert names(target) == {"mine"}
    assert names(tmp_path) == {"out"}


@posix_only
@pytest.mark.parametrize("where", [".", "..", "inner/.."])
@pytest.mark.parametrize("full", [True, False])
def test_the_working_folder_is_not_replaced(tmp_path, monkeypatch, where, full):
    here = tmp_path / "outer" / "here"
    (here / "inner").mkdir(parents=True)
    if full:
        (here / "config.json").write_text("{}")
    monkeypatch.chdir(here)
    with pytest.raises(CheckpointError, match="the working folder of this program"):
        replace_folder(Path(where))
    assert Path.cwd() == here
    replace_folder(Path("new"))
    assert names(here / "new") == {"shard"}


@posix_only
def test_a_deleted_working_folder_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    (tmp_path / "out").mkdir()
    replace_folder(tmp_path / "out")
    assert names(tmp_path / "out") == {"shard"}


def together(folder: Path, *, overwrite: bool, lines: bytes = b"new lines") -> None:
    sizes = {folder / "load.py": 5, folder / "m.pt": 3}
    with replacing_together(sizes, overwrite=overwrite) as (loader, main):
        loader.write_bytes(lines)
        main.write_bytes(b"new")


@pytest.mark.parametrize("old", [True, False])
def test_if_the_main_file_cannot_be_renamed_the_others_are_unchanged(tmp_path, monkeypatch, old):
    replace_target = atomic._replace_target

    def fail(draft):
        if draft.target.name == "m.pt":
            raise CheckpointError("the disk broke")
        replace_target(draft)

    if old:
        (tmp_path / "load.py").write_bytes(b"old lines")
        (tmp_path / "m.pt").write_bytes(b"old")
    before = contents(tmp_path)
    monkeypatch.setattr(atomic, "_replace_target", fail)
    with pytest.raises(CheckpointError, match="the disk broke"):
        together(tmp_path, overwrite=old)
    assert contents(tmp_path) == before
    monkeypatch.undo()
    together(tmp_path, overwrite=old)
    assert contents(tmp_path) == {
        "load.py": b"new lines", "m.pt": b"new",
    }  # fmt: skip


def test_a_file_with_the_same_content_is_not_replaced(tmp_path):
    (tmp_path / "load.py").write_bytes(b"lines")
    before = (tmp_path / "load.py").stat()
    together(tmp_path, overwrite=True, lines=b"lines")
    after = (tmp_path / "load.py").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert names(tmp_path) == {"load.py", "m.pt"}
