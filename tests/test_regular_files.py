import os
import sys

import pytest

from prune_gui.file_stamps import FileStamps
from prune_gui.regular_files import append_regular, open_regular, read_regular

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no FIFOs")


def test_a_regular_file_is_read_up_to_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    assert read_regular(path, 4) == b"1234"
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(path, 3)


def test_a_link_to_a_regular_file_is_followed(tmp_path):
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"1234"


@needs_posix
@pytest.mark.timeout(10)
def test_a_fifo_without_a_writer_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "fifo", 10)


def test_a_regular_file_is_created_and_appended_to(tmp_path):
    for text in (b"12", b"34"):
        with append_regular(tmp_path / "file") as file:
            file.write(text)
    assert (tmp_path / "file").read_bytes() == b"1234"


@needs_posix
@pytest.mark.timeout(10)
def test_a_fifo_is_not_appended_to(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        append_regular(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        append_regular(tmp_path / "fifo")
    os.close(reader)


@needs_posix
@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_devices_and_folders_are_refused(path):
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(path, 10)


def test_a_missing_file_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")


@needs_posix
def test_a_refused_file_leaves_no_descriptor_open(tmp_path):
    with pytest.raises(OSError, match="regular"):
        open_regular(tmp_path)
    lowest_free = os.open(tmp_path, os.O_RDONLY)
    os.close(lowest_free)
    with pytest.raises(OSError, match="regular"):
        open_regular(tmp_path)
    lowest_free_after = os.open(tmp_path, os.O_RDONLY)
    os.close(lowest_free_after)
    assert lowest_free_after == lowest_free


def test_a_modified_touched_or_replaced_file_has_changed(tmp_path):
    kept, written, replaced, touched = (tmp_path / name for name in "abcd")
    for path in (kept, written, replaced, touched):
        path.write_text("one")
        os.utime(path, (1, 1))
    stamps = FileStamps.of([kept, written, written, replaced, touched])
    assert stamps.changed() == ()
    written.write_text("longer")
    other = tmp_path / "other"
    other.write_text("two")
    os.utime(other, (1, 1))
    other.replace(replaced)
    os.utime(touched, (2, 2))
    assert stamps.changed() == (written, replaced, touched)


def test_a_deleted_file_has_changed_only_when_it_exists_again(tmp_path):
    path = tmp_path / "a"
    stamps = FileStamps.of([path])
    assert stamps.changed() == ()
    path.write_text("one")
    assert stamps.changed() == (path,)
    stamps = FileStamps.of([path])
    path.unlink()
    assert stamps.changed() == ()
    path.write_text("another")
    assert stamps.changed() == (path,)
