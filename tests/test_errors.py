"""Messages and log records: names in one visible line, and secrets in URLs hidden."""

from __future__ import annotations

import logging
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import (
    BLANKS,
    INVISIBLE,
    MAX_MESSAGE_CHARS,
    CheckpointError,
    PluginError,
    PruneGuiError,
    RecipeError,
    StepError,
    one_line,
)
from prune_gui.redaction import redacted, redacted_url
from prune_gui.session.log import LogFormatter

ANY = st.text(st.characters() | st.characters(categories=["Cs", "Cf", "Cc", "Mn", "Zs"]))


@pytest.mark.parametrize(
    "text",
    [
        "encoder.layer.0.weight",
        "a b",
        "权重.weight",
        "été",
        "e\u0301",
        "שלום",
        "वज़न",
        "日本語",
        "😀",
        "1\u202f234\xa0567",  # separators of numbers in any locale
    ],
)
def test_plain_text_is_shown_unchanged(text):
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\nb"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b31m", r"\x9b31m"),
        ("\x7f", r"\x7f"),
        ("\u202egpj", r"\u202egpj"),
        ("\u2066\u2069\u200e\u061c", r"\u2066\u2069\u200e\u061c"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
        ("\U000e0041", r"\U000e0041"),
        ("\ue000\uffff", r"\ue000\uffff"),
        ("\udc80", r"\udc80"),
        ("\u3164\u2800\u115f\uffa0", r"\u3164\u2800\u115f\uffa0"),
        ("a\ufe0f", r"a\ufe0f"),
        ("\u2003\u3000", r"\u2003\u3000"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + r"\u0301\u0301"),
    ],
)
def test_unprintable_and_invisible_characters_are_escaped(text, shown):
    assert one_line(text) == shown


@given(ANY, st.integers(10, 100))
def test_any_text_becomes_one_short_line_of_visible_characters(text, limit):
    shown = one_line(text, limit)
    assert len(shown) <= limit
    assert all(c.isprintable() or c in BLANKS for c in shown)
    assert INVISIBLE.isdisjoint(shown)
    assert one_line(shown, limit) == shown
    marks = "".join("m" if unicodedata.category(c) in ("Mn", "Me") else "." for c in shown)
    assert "m" * 5 not in marks


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\\\x1fhost?key", r"\\x1fhost?***"),  # the escape makes it the name of a share
        ("a%/\\3f? \x1f?", r"a%/\3f?***"),  # the space is left out
    ],
)
def test_what_becomes_a_url_shows_no_secret(text, shown):
    assert one_line(text, 14) == shown


def test_a_long_name_keeps_both_ends():
    assert one_line("a" * 1000 + "b" * 1000, 30) == "a" * 17 + "..." + "b" * 10


@pytest.mark.parametrize("error_class", [PruneGuiError, CheckpointError, RecipeError, PluginError])
def test_every_message_is_one_line_of_bounded_length(error_class):
    message = str(error_class("x" * 100_000 + "\nprune-gui: all is well\x1b[2J"))
    assert message.isprintable()
    assert len(message) <= MAX_MESSAGE_CHARS


def test_the_reason_of_a_failed_step_is_one_line_too():
    error = StepError(3, "a\n" * 1000)
    assert error.reason.isprintable()
    assert len(error.reason) <= MAX_MESSAGE_CHARS
    assert str(error).startswith("Step 3: a\\na")
    assert len(str(error)) <= MAX_MESSAGE_CHARS


def test_an_os_error_becomes_an_error_that_says_what_the_system_says(tmp_path):
    path = tmp_path / "absent.txt"
    message = "{path} cannot be read: {reason}."
    with pytest.raises(RecipeError) as caught, RecipeError.on_os_error(message, path=path):
        path.read_text()
    assert str(caught.value) == f"{path} cannot be read: No such file or directory."
    assert caught.value.brief == "absent.txt cannot be read: No such file or directory."
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_an_os_error_without_a_number_is_shown_with_its_own_words():
    with (
        pytest.raises(PruneGuiError, match=r"^No start: too slow\.$"),
        PruneGuiError.on_os_error("No start: {reason}."),
    ):
        raise OSError("too slow")


WITH_SECRETS = [
    "https://u:SECRET@host/a",
    "https://SECRET@host/a",
    "http://u:SEC/RET@host",
    "https://u:SEC?RET@host",
    "https://u:SEC#RET@host",
    "https://u:SEC@RET@host/a",
    "https:/u:SECRET@host",
    "https:u:SECRET@host",
    "https//u:SECRET@host",
    "https;//u:SECRET@host",
    "https:////u:SECRET@host",
    "//u:SECRET@host/a",
    "htps://u:SECRET@host",
    r"HTTPS:\\u:SECRET@host\a",
    r"https:\u:SECRET@host",
    " https://u:SECRET@host/a",
    "\thttps://u:SECRET@host",
    "s3:/key:SECRET@bucket/x",
    "s3a://key:SECRET@bucket",
    "gs:/u:SECRET@bucket",
    "hf://u:SECRET@owner/name",
    "wasbs://c:SECRET@account/x",
    "ftp://u:SECRET@host",
    "https://u:SECRET@[::1]/",
    "https://u%3ASECRET%40host/a",
    "https%3A%2F%2Fu%3ASECRET%40host%2Fa",
    "https://host/a?token=SECRET",
    "https://host/a?x=1;SECRET@b",
    "https://host/a?X-Amz-Signature=SECRET&x=1",
    "https://host/a%3Ftoken%3DSECRET",
    "https://host/a#access_token=SECRET",
    "az://account?sv=1&sig=SECRET%3D",
    "host/a?token=SECRET",
    "/tmp/x.pt?X-Amz-Signature=SECRET",
]
WITHOUT = [
    "encoder.layer.0.weight",
    "https://host.org/a/b.safetensors",
    "https://host/a@v1/b.safetensors",
    "hf://Owner/name@main/model.safetensors",
    "s3://bucket/a=b/c.pt",
    "/home/me@work/model.pt",
    r"C:\Users\me@work\model.pt",
    "model@1:2.pt",
    "a@b:c",
    "what is 5 = 3?",
]


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_a_secret_is_hidden_wherever_it_is_shown(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = logging.LogRecord("a", logging.ERROR, "", 0, "Opening %s failed", (url,), None)
    with pytest.raises(CheckpointError) as typed:
        open_checkpoint(url)
    shown = [
        redacted_url(url),
        one_line(f"{url} does not exist. Check its name."),
        str(PruneGuiError(f"{url!r} is a folder.")),
        LogFormatter("%(message)s").format(record),
        str(typed.value),
    ]
    for text in shown:
        assert "SEC" not in text
        assert "RET" not in text
        assert "***" in text
        assert redacted(text) == text


@pytest.mark.parametrize("text", WITHOUT)
def test_what_is_no_secret_is_shown(text):
    assert redacted(text) == redacted_url(text) == text


def test_a_file_whose_name_looks_like_a_secret_is_opened(tmp_path, monkeypatch, demo_checkpoint):
    monkeypatch.chdir(tmp_path)
    name = "a?token=1"
    (tmp_path / name).write_bytes(demo_checkpoint.read_bytes())
    with open_checkpoint(name) as checkpoint:
        assert checkpoint.tensors


@pytest.mark.parametrize(
    "text", ["https:", "a:", "//", "?a", "@", "%", "a.a", " ", "?key", "https://u:"]
)
def test_long_texts_take_little_time(text):
    started = time.monotonic()
    redacted(text * 100_000 + "@=")
    assert time.monotonic() - started < 1
