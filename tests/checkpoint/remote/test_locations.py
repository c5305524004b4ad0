from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prune_gui.checkpoint.remote.locations import (
    cache_folder,
    is_url,
    location,
    location_path,
    path_of,
    url_of,
)
from prune_gui.errors import CheckpointError

NAMES = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="/\\"), min_size=1
)
SEGMENTS = st.lists(NAMES.filter(lambda name: name not in (".", "..")), max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["https", "http", "s3", "gs", "az", "hf"]), SEGMENTS)
def test_the_url_of_the_path_of_a_url_is_the_same_url(scheme, segments):
    path = cache_folder().joinpath(scheme, "host%3A80", *segments)
    url = url_of(path)
    assert url.startswith(f"{scheme}://host:80")
    assert path_of(url) == path
    assert url_of(path_of(url)) == url
    assert location(path) == url


@pytest.mark.parametrize(
    ("url", "ending"),
    [
        ("https://Host.org/a/b.safetensors?download=true", "https/host.org/a/b.safetensors"),
        ("https://host.org//a///b/", "https/host.org/a/b"),
        ("s3://Bucket/a%20b", "s3/Bucket/a b"),
        ("hf://Owner/name@main/model.safetensors", "hf/Owner/name@main/model.safetensors"),
    ],
)
def test_the_path_of_a_url_has_the_names_of_its_files(url, ending):
    assert path_of(url) == cache_folder() / ending


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https:///a",
        "https://host/../a",
        "https://host/a%2F..%2Fb",
        "https://host/a%00b",
        "https://[::1/a",
        "https://host:port/a",
        "https://host/" + "a" * 2000,
    ],
)
def test_an_invalid_url_is_refused(url):
    with pytest.raises(CheckpointError, match="is not a valid URL"):
        path_of(url)


@pytest.mark.parametrize(
    "url",
    ["https://me:secret@host/a", "https://secret@host/a", "s3://b/a?X-Amz-Signature=secret"],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(CheckpointError, match="carries a password or a signature") as caught:
        path_of(url)
    assert "secret" not in str(caught.value)


def test_ordinary_paths_have_no_url():
    assert url_of(Path("/home/me/model.safetensors")) is None
    assert url_of(cache_folder()) is None
    assert url_of(cache_folder() / "blocks" / "a.data") is None
    assert location(Path("/home/me")) == "/home/me"
    assert location_path("s3:/a") == Path("s3:/a")
    assert [is_url(text) for text in ("S3://a", "ftp://a", "file:///a", "a")] == [
        *(True, False, False, False)
    ]
