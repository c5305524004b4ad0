from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prune_gui.errors import CheckpointError
from prune_gui.location import Location, cache_folder, is_url

NAMES = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="/\\"), min_size=1
)
SEGMENTS = st.lists(NAMES.filter(lambda name: name not in (".", "..")), max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["https", "http", "s3", "gs", "az", "hf"]), SEGMENTS)
def test_the_url_of_the_path_of_a_url_is_the_same_url(scheme, segments):
    path = cache_folder().joinpath(scheme, "host%3A80", *segments)
    location = Location.at(path)
    assert location.url.startswith(f"{scheme}://host:80")
    assert Location.of(location.url) == Location.of(path) == location
    assert str(location) == location.url


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
    assert Location.of(url).path == cache_folder() / ending


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
        Location.of(url)


@pytest.mark.parametrize(
    "url", ["https://me:secret@host/a", "https://secret@host/a", "s3://b/a?X-Amz-Signature=secret"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(CheckpointError, match="carries a password or a signature") as caught:
        Location.of(url)
    assert "secret" not in str(caught.value)


def test_the_folder_and_the_files_of_a_remote_folder_are_remote():
    folder = Location.of("s3://bucket/model")
    assert (folder / "a b.pt").url == "s3://bucket/model/a%20b.pt"
    assert (folder / "a.pt").parent == folder
    assert (folder / "a.pt").own_folder == Path.home()
    assert Location.of("/data/a.pt").own_folder == Path("/data")


def test_ordinary_paths_have_no_url():
    for path in (
        Path("/home/me/model.safetensors"),
        Path("s3:/a"),
        cache_folder(),
        cache_folder() / "blocks" / "a.data",
    ):
        assert Location.of(str(path)) == Location(path)
        assert str(Location(path)) == str(path)
    assert [is_url(text) for text in ("S3://a", "ftp://a", "file:///a", "a")] == [
        *(True, False, False, False)
    ]
