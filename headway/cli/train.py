"""`headway train`: from data to a model that works."""

import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headway.config.train import TrainConfig

DIVERGED, STOPPED = 1, 130


def train(
    *data: Annotated[str, Parameter(allow_leading_hyphen=True)],  # `-` is one
    config: Path | None = None,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    settings: Annotated[TrainConfig | None, Parameter(name="*", negative="")] = None,
) -> int:
    """Train a model on files, folders or embedded sources.

    A run lives in a directory of its own (--out): the settings, metrics.jsonl,
    checkpoints, the finished model and report.html. It can be stopped at any
    time (Ctrl-C) and goes on with --resume, to the same weights as if nobody
    had stopped it. Settings come from defaults, a file (--config), variables
    such as HEADWAY_TRAIN_OPTIM__RATE, and this command line, the later before
    the earlier.

    For example:

        headway train book.txt --out runs/book
        headway train --config recipes/shakespeare.yaml
        headway train pairs.tsv --task seq2seq --steps 5000
        headway train reviews.csv --task classify --model.start models/bert
        headway train --out runs/book --resume --steps 4000
        torchrun --nproc-per-node 2 -m headway train book.txt --out runs/book

    Parameters
    ----------
    data
        Files, folders, globs, `-` for stdin, or sources by name: python, stdlib, digits, gettext:Django:es, cldr:es.
    config
        Settings in a YAML, TOML or JSON file.
    out
        The run's directory; by default runs/ and the name of the data.
    resume
        Go on from the newest checkpoint in --out.
    overwrite
        Replace a run that is there already.
    print_config
        Print the resolved settings as YAML, and stop.
    dry_run
        Read the data and build the model, say what would be trained, and stop.
    """
    from headway.app.settings import free_place, merged, resolve, saved, written

    given = {} if settings is None else settings.model_dump(exclude_unset=True)
    _check(data)
    if data:
        given = merged(given, {"data": {"train": list(data)}})
    place = _place(out, config) if resume else out
    resolved = resolve(given, file=saved(place) if resume and place is not None else config)
    if not resolved.data.train:
        raise ValueError("there is nothing to train on: name a file, a folder, or a source such as python")
    if print_config:
        print(written(resolved), end="")
        return 0
    place = place or free_place(resolved)
    if "WORLD_SIZE" in os.environ:
        # A head that nothing is asked of in a batch is no mistake, and DDP would warn of it.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.training_run import dry_run as describe
    from headway.app.training_run import run

    if dry_run:
        print(describe(resolved))
        return 0
    reason = run(resolved, place, resume=resume, overwrite=overwrite)
    if int(os.environ.get("RANK", "0")) == 0:
        print(place / "model" if reason in ("finished", "early") else place)
        _after(place)
    return {"diverged": DIVERGED, "stopped": STOPPED}.get(reason, 0)


def _check(data: tuple[str, ...]) -> None:
    for name in data:
        if name.startswith("-") and name != "-":
            known = [f"--{one.replace('_', '-')}" for one in (*TrainConfig.model_fields, "config", "out", "resume")]
            known += [f"--{part}.{name}" for part, field in TrainConfig.model_fields.items()
                      for name in getattr(field.annotation, "model_fields", {})]  # fmt: skip
            near = get_close_matches(name.split("=")[0], known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; see headway train --help"
            raise ValueError(f"there is no option {name!r}{hint}")


def _place(out: Path | None, config: Path | None) -> Path:
    if out is None:
        raise ValueError("--resume goes on with a run: name its directory with --out")
    if config is not None:
        raise ValueError(f"--resume goes on with the settings of {out}: leave --config {config} out")
    return out


def _after(place: Path) -> None:
    """What to try next."""
    from headway.app.report import going_on
    from headway.app.run import read_run

    print("what to try next:", file=sys.stderr)
    for what, command in going_on(read_run(place)):
        print(f"  {command:<58} {what}", file=sys.stderr)
