"""Bad files by name, each with a function that writes it and a part of the expected refusal.

Tests write them to a folder. A payload in a file would create a file named `RAN` in this folder.
"""

from corpus_archives import ARCHIVES
from corpus_files import FILES
from corpus_flax import FLAX
from corpus_forms import Bad, Harmless
from corpus_gguf import GGUF
from corpus_keras import KERAS
from corpus_npz import NPZ
from corpus_payloads import PAYLOADS
from corpus_pickles import PICKLES
from corpus_safetensors import SAFETENSORS

CORPUS: dict[str, Bad | Harmless] = {
    f"{kind}-{name}": file
    for kind, files in {
        "safetensors": SAFETENSORS,
        "payload": PAYLOADS,
        "pickle": PICKLES,
        "archive": ARCHIVES,
        "npz": NPZ,
        "flax": FLAX,
        "keras": KERAS,
        "file": FILES,
        "gguf": GGUF,
    }.items()
    for name, file in files.items()
}
