"""`headway train`: from data to a model that works."""

import json as json_format
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headway.cli.common import say
from headway.cli.option_names import check_words
from headway.cli.train_help import DESCRIPTION, option_names
from headway.config.train import TrainConfig

DIVERGED, FAILED, STOPPED = 1, 2, 130


def train(
    *data: Annotated[str, Parameter(allow_leading_hyphen=True)],  # `-` is one
    config: Path | None = None,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    force: Annotated[bool, Parameter(negative="")] = False,
    settings: Annotated[TrainConfig | None, Parameter(name="*", negative="")] = None,
) -> int:
    from headway.app.settings import free_place, merged, resolve, saved, written

    given = {} if settings is None else settings.model_dump(exclude_unset=True)
    check_words("train", data, option_names())
    if data:
        given = merged(given, {"data": {"train": list(data)}})
    place = _place(out, config) if resume else out
    resolved = resolve(given, file=saved(place) if resume and place is not None else config)
    if not resolved.data.train:
        raise ValueError("there is nothing to train on: name a file, a folder, or a source such as python")
    if print_config:
        print(resolved.model_dump_json(indent=2) + "\n" if json else written(resolved), end="")
        return 0
    place = place or free_place(resolved)
    if "WORLD_SIZE" in os.environ:
        # A head that nothing is asked of in a batch is no mistake, and DDP would warn of it.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.training_run import dry_run as describe
    from headway.app.training_run import run

    if dry_run:
        found = describe(resolved)
        print(json_format.dumps(asdict(found), indent=2) if json else found)
        return 0
    reason = run(resolved, place, resume=resume, overwrite=overwrite)
    if int(os.environ.get("RANK", "0")) == 0:
        _print(place, reason, json=json)
    return {"diverged": DIVERGED, "failed": FAILED, "stopped": STOPPED}.get(reason, 0)


def _place(out: Path | None, config: Path | None) -> Path:
    if out is None:
        raise ValueError("--resume goes on with a run: name its directory with --out")
    if config is not None:
        raise ValueError(f"--resume goes on with the settings of {out}: leave --config {config} out")
    return out


def _print(place: Path, reason: str, *, json: bool) -> None:
    """Where the result is, on stdout; what to try next, on stderr."""
    from headway.app.report import going_on
    from headway.app.run import read_run
    from headway.app.runs import as_json

    run, model = read_run(place), place / "model" if reason in ("finished", "early") else None
    if json:
        facts = {"model": None if model is None else str(model), "reason": reason}
        print(json_format.dumps(as_json(run) | facts, indent=2))
    else:
        print(model or place)
    say("what to try next:")
    for what, command in going_on(run):
        say(f"  {command:<58} {what}")


train.__doc__ = DESCRIPTION
