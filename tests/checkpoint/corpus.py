"""Bad files by name: how each is made, and what its refusal has to say.

They are made in a folder when a test asks for them. A payload in one of them would make a file
named `RAN` there.
"""

from __future__ import annotations

from corpus_archives import ARCHIVES
from corpus_files import FILES
from corpus_forms import Bad, Harmless
from corpus_payloads import PAYLOADS
from corpus_pickles import PICKLES
from corpus_safetensors import SAFETENSORS

CORPUS: dict[str, Bad | Harmless] = {
    f"{kind}-{name}": made
    for kind, part in {
        "safetensors": SAFETENSORS,
        "payload": PAYLOADS,
        "pickle": PICKLES,
        "archive": ARCHIVES,
        "file": FILES,
    }.items()
    for name, made in part.items()
}
