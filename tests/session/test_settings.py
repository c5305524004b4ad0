"""What is remembered between runs."""

import json
from pathlib import Path
from typing import get_args

import pytest

from prune_gui.recipe.parts import Form
from prune_gui.session import Settings


def test_settings_survive_their_file(tmp_path):
    settings = Settings(theme="dark", window=("a", "b")).with_recent(tmp_path / "model.pt")
    settings.save(tmp_path / "deep" / "settings.json")
    assert Settings.load(tmp_path / "deep" / "settings.json") == settings


def test_broken_settings_never_block_the_start(tmp_path, caplog):
    for text in ("", "{", '{"theme": "pink"}', "[]", "\x00"):
        (tmp_path / "settings.json").write_text(text)
        assert Settings.load(tmp_path / "settings.json") == Settings()
    assert "settings.json" in caplog.text


@pytest.mark.parametrize(
    ("field", "value"),
    [("theme", "pink"), ("threads", 0), ("picture_memory", "much"), ("form", 3), ("recent", [1])],
)
def test_a_broken_setting_does_not_take_the_others_with_it(tmp_path, caplog, field, value):
    settings = Settings(
        theme="dark", threads=3, picture_memory=7, form="masks", recent=("a",), window=("a", "b")
    )
    path = tmp_path / "settings.json"
    path.write_text(
        json.dumps(settings.model_dump(mode="json") | {field: value, "of_a_later_version": 1})
    )
    default = {field: Settings.model_fields[field].default}
    assert Settings.load(path) == settings.model_copy(update=default)
    assert field in caplog.text


def test_settings_that_cannot_be_written_are_logged(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    Settings().save(tmp_path / "file" / "settings.json")
    assert "was not written" in caplog.text


def test_recent_files_are_latest_first_once_each_and_few():
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


def test_every_form_can_be_the_one_chosen_at_first():
    assert get_args(Settings.model_fields["form"].annotation) == get_args(Form)
