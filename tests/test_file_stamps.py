import os

from prune_gui.file_stamps import FileStamps


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
