"""all-MiniLM-L6-v2, a sentence encoder.

Wang et al., "MiniLM", 2020; Reimers and Gurevych, "Sentence-BERT", 2019. The metric is the mean
cosine of the embeddings of the sentences below to those of the dense network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pydoc_data.topics import topics

import torch
from reference import State, cosines, dense_state, linear, model_file
from tokenizers import BertWordPieceTokenizer
from torch.nn import functional

LAYERS, HEADS = 6, 12
SENTENCES = """\
The ferry leaves the harbour at half past six in the morning.
Nobody in the village remembered who had planted the old walnut tree.
Turn the dough once more and let it rest under a damp cloth.
The committee postponed its decision until the figures were checked.
How long does it take to charge an electric bus?
A thin layer of ice had formed on the pond overnight.
The second violin entered two bars too early.
Copper conducts heat about twice as well as aluminium.
Please keep the receipt in case you want to return the lamp.
Her grandfather taught her to sharpen a knife on a wet stone.
The glacier has retreated by forty metres since last summer.
Which of these two keys opens the cellar door?
Prices for wheat fell after the unexpectedly good harvest.
The referee looked at the recording for almost five minutes.
An owl nests in the tower of the abandoned mill.
The function returns an empty list if no record matches.
They painted the fence green because the shop had run out of blue.
The patient may get up tomorrow if the fever does not return.
Most of the archive was lost in the flood of 1953.
He missed the last train and walked home along the canal.
The telescope will observe the galaxy in infrared light.
Could you translate this letter from Portuguese?
The mayor opened the new swimming pool with a jump from the tower.
Salt lowers the temperature at which water freezes.
The apprentice measured the plank twice and cut it once.
Our neighbours have kept bees on the roof for three years.
The court ruled that the contract had never been valid.
In spring the river carries mud and branches down from the hills.
The update makes the old printer work again.
She read the last chapter first, as she always did.
The trade union and the company agreed on a shorter week.
A single spark is enough to set the dry grass on fire.
The map shows a path that no longer exists.
Vaccinated animals do not spread the disease.
The café on the corner closes when the theatre does.
What is the difference between a crow and a raven?
The engineers replaced the bearings of the turbine in one night.
Rain drummed on the tin roof until we could hardly hear each other.
The poem has fourteen lines and no rhyme.
Investors sold their shares as soon as the rumour spread.""".splitlines()

TOKENIZER = BertWordPieceTokenizer(str(model_file("minilm", "vocab.txt")))
CALIBRATION_SENTENCES = 400
PROSE = re.compile(r"[A-Z][a-z]+(?:[ ,]+[a-z]+){7,30}\.")


def _tokens(sentence: str) -> torch.Tensor:
    return torch.tensor(TOKENIZER.encode(sentence).ids)


def calibration() -> Iterator[torch.Tensor]:
    """Yield sentences of Python's documentation, each by itself and so without padding."""
    text = " ".join(" ".join(topics.values()).split())
    sentences = list(dict.fromkeys(PROSE.findall(text)))
    for sentence in sentences[:CALIBRATION_SENTENCES]:
        yield _tokens(sentence)[None]


def outputs(state: State, ids: torch.Tensor) -> torch.Tensor:
    """Return the mean of the last hidden states over the tokens, of shape (sentences, 384).

    Args:
        state: the tensors of the network.
        ids: numbers of tokens, of shape (sentences, length); 0 is padding.
    """
    count, length = ids.shape
    is_token = ids != 0
    words, positions, types = (
        state[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
    )
    values = functional.embedding(ids, words) + positions[:length] + types[0]
    values = _layer_norm(state, "embeddings.LayerNorm", values)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(state, f"{name}.attention.self.{part}", values)
            .view(count, length, HEADS, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mask = is_token[:, None, None]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        mixed = mixed.transpose(1, 2).flatten(2)
        values = values + linear(state, f"{name}.attention.output.dense", mixed)
        values = _layer_norm(state, f"{name}.attention.output.LayerNorm", values)
        inner = functional.gelu(linear(state, f"{name}.intermediate.dense", values))
        values = values + linear(state, f"{name}.output.dense", inner)
        values = _layer_norm(state, f"{name}.output.LayerNorm", values)
    weights = is_token[..., None].float()
    return (values * weights).sum(dim=1) / weights.sum(dim=1)


def _layer_norm(state: State, name: str, values: torch.Tensor) -> torch.Tensor:
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    return functional.layer_norm(values, weight.shape, weight, bias, eps=1e-12)


IDS = torch.nn.utils.rnn.pad_sequence([*map(_tokens, SENTENCES)], batch_first=True)
with torch.no_grad():
    DENSE = outputs(dense_state("minilm", "model.safetensors"), IDS)


def evaluate(state: State) -> dict[str, float]:
    """Return the mean cosine to the dense embeddings, as they are and centered."""
    with torch.no_grad():
        return cosines(outputs(state, IDS), DENSE)
