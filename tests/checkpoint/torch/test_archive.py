"""The size of an archive is known before it is written."""

from __future__ import annotations

import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint.torch import archive as torch_archive
from prune_gui.checkpoint.torch.archive import TorchArchive, archive_nbytes

sizes = st.lists(st.integers(0, 300), max_size=8)


@given(sizes, st.integers(100, 2000), st.integers(1, 8))
def test_the_computed_size_is_that_of_the_archive_with_and_without_zip64(
    tmp_path_factory, nbytes_of_records, limit, max_records
):
    records = [(f"data/{number}", size) for number, size in enumerate(nbytes_of_records)]
    path = tmp_path_factory.mktemp("archive") / "archive.pt"
    with pytest.MonkeyPatch.context() as patch:  # ZIP64 is used for small files, too
        patch.setattr(zipfile, "ZIP64_LIMIT", limit)
        patch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", max_records)
        patch.setattr(torch_archive, "MAX_PLAIN_BYTES", limit)
        patch.setattr(torch_archive, "MAX_PLAIN_RECORDS", max_records)
        with TorchArchive(path) as archive:
            for name, size in records:
                archive.add(name, bytes(size))
        assert archive_nbytes(records) == path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
