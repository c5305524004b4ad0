"""AntiBERTy, an encoder of antibodies.

Ruffolo, Gray and Sulam, "Deciphering antibody affinity maturation with language models and weakly
supervised learning", 2021; the wheel `antiberty` 0.1.3 has the checkpoint and its vocabulary. The
metric is the mean cosine of the embeddings of sequences to those of the dense network; there is the
perplexity of masked residues, too. Sequences are recombined from human germline genes (Lefranc,
"IMGT", 2003) with random junctions and mutations, those of the evaluation from other genes than
those of the calibration.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from reference import State, cosines, dense_state, model_file
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM

HEAVY = (
    "QVQLVQSGAEVKKPGSSVKVSCKASGGTFSSYAISWVRQAPGQGLEWMGGIIPIFGTANYAQKFQGRVTITADESTSTAYMELSSLRSEDTAVYYCAR",
    "EVQLLESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK",
    "QVQLQQWGAGLLKPSETLSLTCAVYGGSFSGYYWSWIRQPPGKGLEWIGEINHSGSTNYNPSLKSRVTISVDTSKNQFSLKLSSVTAADTAVYYCAR",
    "QVQLVQSGAEVKKPGASVKVSCKASGYTFTGYYMHWVRQAPGQGLEWMGWINPNSGGTNYAQKFQGRVTMTRDTSISTAYMELSRLRSDDTAVYYCAR",
    "QVQLVESGGGVVQPGRSLRLSCAASGFTFSSYGMHWVRQAPGKGLEWVAVISYDGSNKYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK",
    "EVQLVQSGAEVKKPGESLKISCKGSGYSFTSYWIGWVRQMPGKGLEWMGIIYPGDSDTRYSPSFQGQVTISADKSISTAYLQWSSLKASDTAMYYCAR",
)
LIGHT = (
    "DIQMTQSPSSLSASVGDRVTITCRASQSISSYLNWYQQKPGKAPKLLIYAASSLQSGVPSRFSGSGSGTDFTLTISSLQPEDFATYYCQQ",
    "DIVMTQSPDSLAVSLGERATINCKSSQSVLYSSNNKNYLAWYQQKPGQPPKLLIYWASTRESGVPDRFSGSGSGTDFTLTISSLQAEDVAVYYCQQ",
    "QSALTQPASVSGSPGQSITISCTGTSSDVGGYNYVSWYQQHPGKAPKLMIYEVSNRPSGVSNRFSGSKSGNTASLTISGLQAEDEADYYCSS",
    "EIVLTQSPGTLSLSPGERATLSCRASQSVSSSYLAWYQQKPGQAPRLLIYGASSRATGIPDRFSGSGSGTDFTLTISRLEPEDFAVYYCQQ",
    "SYVLTQPPSVSVAPGKTARITCGGNNIGSKSVHWYQQKPGQAPVLVIYYDSDRPSGIPERFSGSNSGNTATLTISRVEAGDEADYYCQV",
    "DIVMTQSPLSLPVTPGEPASISCRSSQSLLHSNGYNYLDWYLQKPGQSPQLLIYLGSNRASGVPDRFSGSGSGTDFTLKISRVEAEDVGVYYCMQ",
)
ENDS = (("FDYWGQGTLVTVSS", "MDVWGQGTTVTVSS", "FDIWGQGTMVTVSS"), ("FGQGTKVEIK", "FGGGTKLTVL"))
CALIBRATION_GENES = 4
"""The first ones of each chain are for calibration, the others for the evaluation."""
JUNCTIONS = (range(6, 15), range(5, 8))
MUTATED = 0.08
MASKED = 0.15
TOKENS = model_file("antiberty", "vocab.txt").read_text().split()
CLS, SEP, MASK = (TOKENS.index(f"[{name}]") for name in ("CLS", "SEP", "MASK"))
RESIDUES = [token for token in TOKENS if len(token) == 1]

DENSE_STATE = dense_state("antiberty", "pytorch_model.bin")


def _sequences(count: int, seed: int, genes: slice) -> list[torch.Tensor]:
    """Return token ids of sequences, as many heavy as light ones."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        chain = number % 2
        gene = chance.choice((HEAVY, LIGHT)[chain][genes])
        junction = "".join(chance.choices(RESIDUES, k=chance.choice(JUNCTIONS[chain])))
        whole = gene + junction + chance.choice(ENDS[chain])
        mutated = [
            chance.choice(RESIDUES) if chance.random() < MUTATED else residue for residue in whole
        ]
        found.append(torch.tensor([CLS, *map(TOKENS.index, mutated), SEP]))
    return found


def calibration() -> Iterator[torch.Tensor]:
    """Yield sequences, each by itself and so without padding."""
    for ids in _sequences(200, 0, slice(None, CALIBRATION_GENES)):
        yield ids[None]


def network() -> BertForMaskedLM:
    """Return the dense network."""
    model = BertForMaskedLM(BertConfig.from_pretrained(model_file("antiberty", "config.json")))
    model.load_state_dict(DENSE_STATE, strict=False)
    return model.eval().requires_grad_(False)


@torch.no_grad()
def _measured(state: State) -> tuple[torch.Tensor, float]:
    """Return the mean embedding of each sequence, and the perplexity of its masked residues."""
    model, generator = network(), torch.Generator().manual_seed(0)
    model.load_state_dict(state, strict=False)
    rows, losses = [], []
    for ids in SEQUENCES:
        hidden = model.bert(ids[None]).last_hidden_state[0, 1:-1]
        rows.append(hidden.mean(0))
        masked = torch.rand(len(ids), generator=generator) < MASKED
        masked[[0, -1]] = False
        logits = model(ids.masked_fill(masked, MASK)[None]).logits[0, masked]
        losses.append(functional.cross_entropy(logits, ids[masked], reduction="none"))
    return torch.stack(rows), float(torch.cat(losses).mean().exp())


SEQUENCES = _sequences(96, 1, slice(CALIBRATION_GENES, None))
DENSE, DENSE_PERPLEXITY = _measured({})


def evaluate(state: State) -> dict[str, float]:
    """Return the mean cosine to the dense embeddings, and the perplexity of masked residues."""
    rows, perplexity = _measured(state)
    return cosines(rows, DENSE) | {"perplexity": perplexity, "dense_perplexity": DENSE_PERPLEXITY}
