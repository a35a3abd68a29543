"""`headway convert`: a model read from one directory and written to another."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    import torch

Dtype = Literal["bfloat16", "float32", "float16", "float64"]


def convert(
    source: Path,
    destination: Path,
    /,
    *,
    dtype: Dtype | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Read a model, check every tensor, and write it in its layout.

    The receipt of what was read goes to stderr. The directory is made beside its place and moved there when it is
    whole, so that nothing half-written stays.

    For example:

        headway convert my-model my-model-bfloat16 --dtype bfloat16

    Parameters
    ----------
    source
        A directory with config.json and model.safetensors (or shards and their index).
    destination
        Where to write; it must not exist, or be empty.
    dtype
        Of the weights; as they are stored by default.
    overwrite
        Replace the model that stands there.
    """
    _check(source, destination, overwrite)
    # torch takes seconds to import, and --help must not wait for it
    import headway
    from headway.hub.target import directory

    place = directory(str(source))
    before = stored(place)
    after = before if dtype is None else dtype
    model, tokenizer, receipt = headway.load(place, dtype=after)
    print(receipt, file=sys.stderr)
    if after != before:
        _check_range(model, after)
    headway.save(model, destination.resolve(), tokenizer=tokenizer, overwrite=overwrite)
    print(f"{destination}: written in {after}", file=sys.stderr)
    return 0


def stored(directory: Path) -> str:
    """The most exact dtype among the weights of a directory."""
    from headway.hub.store import FLOATS, Store
    from headway.hub.target import Directory

    with Store(Directory(directory).folder) as store:
        kinds = {header.dtype for header in store.headers.values()}
    return next((str(FLOATS[kind]).removeprefix("torch.") for kind in FLOATS if kind in kinds), "float32")


def _check(source: Path, destination: Path, overwrite: bool) -> None:
    if not destination.exists():
        return
    if not destination.is_dir():
        raise ValueError(f"{destination} is a file: a model is written into a directory")
    if not any(destination.iterdir()):
        return
    if not overwrite:
        raise ValueError(f"{destination} is not empty: choose another place, or add --overwrite")
    if not any((destination / name).is_file() for name in ("config.json", "modules.json")):
        raise ValueError(f"{destination} is not empty and holds no model: --overwrite replaces models alone")
    if source.resolve() != destination.resolve() and source.resolve().is_relative_to(destination.resolve()):
        raise ValueError(f"{source} lies in {destination}, and would be lost with it: choose another place")


def _check_range(model: "torch.nn.Module", dtype: str) -> None:
    """Refuse a dtype that turns numbers into inf; this one was asked for, so it is not quietly mended."""
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise ValueError(f"{name!r} is not finite in {dtype}: convert to a dtype of larger numbers, as bfloat16")
