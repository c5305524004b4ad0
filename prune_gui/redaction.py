"""Passwords and signatures in URLs, also in mistyped ones, are never shown or logged."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
COLON, SLASH, AT, QUERY = r"(?::|%3a)", r"(?:[/\\]|%2f|%5c)", "(?:@|%40)", "(?:[?#]|%3f|%23)"
"""Characters, and how they are written in a URL that was encoded twice."""
SCHEME: Final = "(?:https?|s3a?|gs|az|hf|ftps?|sftp|ssh|abfss?|wasbs?)"
START: Final = re.compile(
    rf"\s*(?:[a-z][\w+.-]{{1,20}}{COLON}{SLASH}+|{SCHEME}(?:{COLON}|;|{SLASH}){SLASH}*|{SLASH}{SLASH})",
    re.IGNORECASE,
)
"""The beginning of a URL, with too few slashes, other ones, no colon, or no scheme."""
TOKEN: Final = re.compile(rf"(?<![\w+.\\/-])(?:{START.pattern[3:]})\S+", re.IGNORECASE)
LAST_AT: Final = re.compile(f".*{AT}", re.IGNORECASE | re.DOTALL)
USER: Final = re.compile(f"(?:.*{COLON}|(?!.*{SLASH}))", re.IGNORECASE | re.DOTALL)
FIRST_QUERY: Final = re.compile(QUERY, re.IGNORECASE)
VALUE: Final = re.compile(
    r"([?&;](?:[\w.-]|%2d){0,60}(?:token|sig|signature|secret|password|passwd|pwd|credentials?|key|auth)=)"
    r"[^\s&;'\"]+",
    re.IGNORECASE,
)
MARKS: Final = re.compile("[@=?#%]")


def redacted(text: str) -> str:
    """Return a text of which secrets in URLs are hidden.

    In each word that begins as a URL, this is what stands before an `@`, unless it is a part of the
    path, and what stands after a `?` or `#`; in other words, the values of such names as `token`.
    """
    if MARKS.search(text) is None:
        return text
    text = TOKEN.sub(lambda word: redacted_url(word[0]), text)
    return VALUE.sub(rf"\1{HIDDEN}", text)


def redacted_url(url: str) -> str:
    """Return a URL, which is all of a text, without its secrets; see `redacted`."""
    start = START.match(url)
    if start is None:
        return VALUE.sub(rf"\1{HIDDEN}", url)
    rest = url[start.end() :]
    query = FIRST_QUERY.search(rest)
    at = LAST_AT.match(rest)
    if query and at and query.start() < at.end():
        return f"{start[0]}{HIDDEN}"
    if query:
        rest = f"{rest[: query.start()]}?{HIDDEN}"
    if at and USER.match(at[0]):
        rest = f"{HIDDEN}@{rest[at.end() :]}"
    return start[0] + rest
