"""`headway convert`: a model read from one directory and written to another."""

import json as json_format
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import say

if TYPE_CHECKING:
    from headway.data.tokenizer import Tokenizer

Dtype = Literal["bfloat16", "float32", "float16", "float64"]


def convert(
    source: str,
    destination: str | None = None,
    /,
    *,
    out: Annotated[str | None, Parameter(alias="-o")] = None,
    dtype: Dtype | None = None,
    weights: Literal["int8", "int4", "float"] | None = None,
    merge: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Read a model, check every tensor, and write it in its layout.

    The receipt of what was read goes to stderr, then the hash of what was written. The directory is made beside its
    place and moved there when it is whole, so that nothing half-written stays.

    For example:

        headway convert my-model my-model-bfloat16 --dtype bfloat16
        headway convert runs/book --out book-float16 --dtype float16 --json
        headway convert my-model my-model-int8 --weights int8
        headway convert model.gguf my-model
        headway convert model.gguf my-model --weights float
        headway convert runs/tuned my-tuned-model --merge

    Parameters
    ----------
    source
        A run, a directory with config.json and model.safetensors (or shards and their index), a GGUF file, or an
        adapter.
    destination
        Where to write; it must not exist, or be empty, and lies outside the source.
    out
        The same as DESTINATION.
    dtype
        Precision of the weights, for example bfloat16; as they are stored by default.
    weights
        Store the weights of linear maps in fewer bits; embeddings and norms stay as they are. `float`: of a model that
        is stored so, write the floating-point numbers that its weights mean, so that it can be trained.
    merge
        Write the model that an adapter (a run with lora.rank, or a directory of the library peft's) is made for, with
        the adapter added to its weights.
    overwrite
        Replace the model that stands there; refused where other files lie beside it.
    json
        Print the destination, dtype, hash and parameters as a JSON object.
    """
    if (destination is None) == (out is None):
        raise ValueError("name one place to write to: headway convert SOURCE DESTINATION, or --out DESTINATION")
    place_to_write = destination if out is None else out
    assert place_to_write is not None
    _convert(source, place_to_write, dtype, weights, merge=merge, overwrite=overwrite, json=json)
    return 0


def _convert(
    source: str,
    destination: str,
    dtype: str | None,
    weights: str | None,
    *,
    merge: bool,
    overwrite: bool,
    json: bool,
) -> None:
    # torch takes seconds to import, and --help must not wait for it
    import headway
    from headway.hub.save import check_place
    from headway.hub.target import directory
    from headway.models import parameters
    from headway.models.quantize import restore_floats

    place = directory(source).path
    _check_merge(source, place, merge)
    if destination:  # pathlib takes an empty path for the directory one is in
        _check_apart(place, Path(destination))
    check_place(destination, overwrite, how="add --overwrite")
    before = stored(place)
    after = before if dtype is None else dtype
    floats = weights == "float"
    model, tokenizer, receipt = headway.load(place, dtype=after, weights=None if floats else weights)
    say(str(replace(receipt, dtype=before, stored="")))  # its hash is of what is stored, so is its dtype
    if after != before:
        _check_range(receipt.overflowed, after)
    if floats:
        if model.config.weights is None:
            raise ValueError(f"{source} has floating-point weights already: leave --weights float out")
        restore_floats(model)
    carried = headway.save(model, destination, tokenizer=tokenizer, overwrite=overwrite)
    none = f"; no tokenizer, as none was found in {source}" if tokenizer is None else ""
    digest = _hash(model, tokenizer)
    if receipt.nonfinite:
        say(f"{destination}: written with weights that are {receipt.warning}")
    fewer = "" if model.config.weights is None else f" with {model.config.weights} weights"
    say(f"{destination}: written in {after}{fewer}; hash {digest[:12]}{none}")
    if str(carried):
        say(f"of the files of {source}: {carried}")
    if json:
        facts = {"source": source, "destination": destination, "dtype": after, "hash": digest}
        facts |= {"parameters": parameters(model), "tokenizer": tokenizer is not None}
        facts |= {} if model.config.weights is None else {"weights": str(model.config.weights)}
        facts |= {"nonfinite": dict(receipt.nonfinite)} if receipt.nonfinite else {}
        facts |= {"files": asdict(carried)}
        print(json_format.dumps(facts, indent=2))


def stored(directory: Path) -> str:
    """The most exact dtype among the weights of a directory."""
    from headway.hub.store import FLOATS, Store
    from headway.hub.target import Directory

    if (place := Directory(directory).base).gguf:
        return "float32"
    with Store(place.folder) as store:
        kinds = {header.dtype for header in store.headers.values()}
    return next((str(FLOATS[kind]).removeprefix("torch.") for kind in FLOATS if kind in kinds), "float32")


def _check_merge(source: str, place: Path, merge: bool) -> None:
    """An adapter becomes part of a model only where that is asked for."""
    from headway.hub.adapter import is_adapter

    if is_adapter(place) and not merge:
        raise ValueError(f"{source} is an adapter: --merge writes the model that it is made for with it added")
    if merge and not is_adapter(place):
        raise ValueError(f"{source} is no adapter, and there is nothing to merge: leave --merge out")


def _check_apart(source: Path, destination: Path) -> None:
    """Refuse two places that are one, or of which one holds the other."""
    one, other = source.resolve(), destination.resolve()
    if one == other:
        raise ValueError(f"{source} and {destination} are one directory: choose another place")
    for inner, outer in ((source, destination), (destination, source)):
        if inner.resolve().is_relative_to(outer.resolve()):
            raise ValueError(f"{inner} lies in {outer}: choose a place beside the source, not in it or around it")


def _hash(model: Any, tokenizer: "Tokenizer | None") -> str:
    """What the receipt of a later load says."""
    from headway.data.shards import tokenizer_hash
    from headway.hub.receipt import hash_of, model_hash
    from headway.hub.sentence import hash_of_encoder
    from headway.models.sentence import SentenceEncoder

    steps = isinstance(model, SentenceEncoder) and model.config.weights is None  # quantised ones are one file
    words = "" if tokenizer is None else tokenizer_hash(tokenizer)
    return model_hash(hash_of_encoder(model) if steps else hash_of(model), model.config, words)


def _check_range(overflowed: tuple[tuple[str, int], ...], dtype: str) -> None:
    """Refuse a dtype that turns numbers into inf; this one was asked for, so it is not quietly mended."""
    for name, _ in overflowed:
        raise ValueError(f"{name!r} is not finite in {dtype}: convert to a dtype of larger numbers, as bfloat16")
