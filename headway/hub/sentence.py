"""Sentence encoders in the layout of sentence-transformers: an encoder's directory, and a folder for each further step.

`headway.load` comes here where a directory has a modules.json, `headway.save` where a model is a sentence encoder.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import normalizers
from torch import nn

from headway.config.file_errors import errors_of
from headway.config.text import SentenceConfig
from headway.data.tokenizer import Tokenizer, engine_errors
from headway.hub.carried_files import ModelOrigin
from headway.hub.family import Entry, Family, Table
from headway.hub.load import Loaded, fill, load_model
from headway.hub.receipt import ModelHash, Receipt, hash_of
from headway.hub.save import write_model, write_tensors
from headway.hub.sentence_modules import read_dense, read_limit, read_pooling, read_prompt, read_steps, write_steps
from headway.hub.store import Store
from headway.models import on_meta
from headway.models.encoder import Masked
from headway.models.sentence import SentenceEncoder

DENSE = [Entry("linear.weight", "weight"), Entry("linear.bias", "bias")]


def load_sentence(directory: Path, dtype: torch.dtype | str | None = None) -> Loaded:
    """The encoder, what stands behind it, and one receipt of both."""
    steps = read_steps(directory)
    encoder, tokenizer, receipt = load_model(steps["Transformer"], dtype=dtype)
    if not isinstance(encoder, Masked):
        raise ValueError(f"{directory} pools a {receipt.family}; headway reads sentence encoders of the BERT family")
    with errors_of(directory):
        config = _config(directory, steps, encoder, tokenizer)
    model = on_meta(config)
    model.encoder, model.tokenizer = encoder, tokenizer
    if model.dense is not None:
        model.dense, below = _load_dense(model.dense, steps["Dense"], encoder.tokens.weight.dtype)
        receipt = _together(receipt, below)
    return Loaded(model.eval(), tokenizer, replace(receipt, path=str(directory), family=f"sentence {receipt.family}"))


def _config(directory: Path, steps: dict[str, Path], encoder: Masked, tokenizer: Tokenizer | None) -> SentenceConfig:
    width = encoder.config.stack.block.output_width
    limit, small = read_limit(steps["Transformer"], encoder.config)
    if tokenizer is not None and small:
        before = tokenizer.engine.normalizer
        rest = [] if before is None else [before]
        tokenizer.engine.normalizer = normalizers.Sequence([normalizers.Lowercase(), *rest])
    return SentenceConfig(
        encoder=encoder.config,
        pooling=read_pooling(steps["Pooling"], width),
        dense=read_dense(steps["Dense"], width) if "Dense" in steps else None,
        normalise="Normalize" in steps,
        limit=limit,
        tail=1 if tokenizer is None else tail_of(tokenizer),
        prompt=read_prompt(directory, steps["Pooling"]),
    )


def mean_pooled(encoder: Masked, tokenizer: Tokenizer) -> SentenceEncoder:
    """An encoder of which no file says how its vectors become one: their mean, as sentence-transformers takes it."""
    folder = encoder.origin.directory if isinstance(encoder.origin, ModelOrigin) else None
    limit = encoder.config.length if folder is None else read_limit(folder, encoder.config)[0]
    config = SentenceConfig(
        encoder=encoder.config, pooling="mean", normalise=False, limit=limit, tail=tail_of(tokenizer)
    )
    model = on_meta(config)
    model.encoder, model.tokenizer = encoder, tokenizer
    return model.train(encoder.training)


def tail_of(tokenizer: Tokenizer) -> int:
    """How many tokens of its own the tokenizer puts after a text."""
    with engine_errors():
        added = tokenizer.engine.encode("a").special_tokens_mask
    return len(added) if all(added) else added[::-1].index(0)


def _load_dense(layer: nn.Linear, folder: Path, dtype: torch.dtype) -> tuple[nn.Linear, Receipt]:
    rows: Table = [row for row in DENSE if layer.bias is not None or row.ours != "bias"]
    family = Family("Dense", lambda config, names: None, dict, lambda config: rows)
    with Store(folder) as store:
        return fill(layer, family, None, store, {name: name for name in store.headers}, dtype)


def _together(one: Receipt, other: Receipt) -> Receipt:
    return replace(
        one,
        expected=one.expected + other.expected,
        found=one.found + other.found,
        parameters=one.parameters + other.parameters,
        hashes=ModelHash(lambda: _both(one.weights_hash, other.weights_hash)),
        verified=tuple(name for name in one.verified if name in other.verified),
        unverified=one.unverified or other.unverified,
        nonfinite=(*one.nonfinite, *((f"dense.{name}", count) for name, count in other.nonfinite)),
        overflowed=(*one.overflowed, *((f"dense.{name}", count) for name, count in other.overflowed)),
    )


def write_sentence(model: SentenceEncoder, directory: Path, shard: int) -> None:
    """The layout, so that sentence-transformers reads it and gives the same vectors."""
    folders = write_steps(model.config, directory)
    write_model(model.config.encoder.family, model.encoder, directory, shard)
    if model.dense is not None:
        tensors = {f"linear.{name}": parameter.detach() for name, parameter in model.dense.named_parameters()}
        write_tensors(tensors, folders["Dense"], hash_of(model.dense), shard)


def hash_of_encoder(model: SentenceEncoder) -> str:
    """What the receipt of a later load says: of the encoder, and of the linear map where there is one."""
    first = hash_of(model.encoder)
    return first if model.dense is None else _both(first, hash_of(model.dense))


def _both(one: str, other: str) -> str:
    return hashlib.sha256(f"{one} {other}".encode()).hexdigest()
