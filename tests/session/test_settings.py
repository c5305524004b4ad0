"""Settings that are kept between runs."""

import json
from pathlib import Path
from typing import get_args

import pytest

from prune_gui.recipe.form_tensors import Form
from prune_gui.session import Settings


def test_settings_round_trip_through_their_file(tmp_path):
    settings = Settings(theme="dark", window=("a", "b")).with_recent(tmp_path / "model.pt")
    settings.save(tmp_path / "deep" / "settings.json")
    assert Settings.load(tmp_path / "deep" / "settings.json") == settings


@pytest.mark.parametrize(
    ("field", "value"),
    [("theme", "pink"), ("threads", 0), ("picture_memory", "much"), ("form", 3), ("recent", [1])],
)
def test_an_invalid_setting_does_not_affect_the_others(tmp_path, caplog, field, value):
    settings = Settings(
        theme="dark", threads=3, picture_memory=7, form="masks", recent=("a",), window=("a", "b")
    )
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings.model_dump() | {field: value, "of_a_later_version": 1}))
    default = {field: Settings.model_fields[field].default}
    assert Settings.load(path) == settings.model_copy(update=default)
    assert field in caplog.text


@pytest.mark.parametrize("place", [0, 1])
def test_a_layout_with_a_wrong_checksum_is_dropped(tmp_path, caplog, place):
    path = tmp_path / "settings.json"
    Settings(theme="dark", window=("AAAA", "BBBB")).save(path)
    assert Settings.load(path).window == ("AAAA", "BBBB")
    written = json.loads(path.read_text())
    written["window"][place] = "AABA"
    path.write_text(json.dumps(written))
    assert Settings.load(path) == Settings(theme="dark")
    assert "checksum" in caplog.text


def test_a_layout_without_a_checksum_is_dropped(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text('{"window": ["AAAA", "BBBB"], "theme": "dark"}')
    assert Settings.load(path) == Settings(theme="dark")


def test_a_relative_path_in_a_deleted_working_folder_is_not_recent(delete_working_folder):
    delete_working_folder()
    assert Settings().with_recent(Path("model.pt")) == Settings()
    assert Settings().with_recent(Path("/model.pt")).recent == (str(Path("/model.pt")),)


def test_recent_files_are_unique_limited_and_latest_first():
    settings = Settings()
    for number in [*range(14), 7]:
        settings = settings.with_recent(Path(f"/models/{number}.pt"))
    assert [Path(name).stem for name in settings.recent] == [
        "7",
        "13",
        "12",
        "11",
        "10",
        "9",
        "8",
        "6",
        "5",
        "4",
    ]


def test_every_export_form_can_be_the_default():
    assert get_args(Settings.model_fields["form"].annotation) == get_args(Form)
