"""The settings of a run, from four places: defaults < file < environment < command line.

A file is YAML, TOML or JSON; a variable is HEADWAY_TRAIN_ and the setting in capitals, with two underscores for a dot:
HEADWAY_TRAIN_OPTIM__RATE=0.002.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headway.app.run_recovery import recover
from headway.config.read_file import parse_yaml, read_settings
from headway.config.run_files import CONFIG
from headway.config.train import TrainConfig

PREFIX = "HEADWAY_TRAIN_"


def resolve(
    given: Mapping[str, Any], *, file: Path | None = None, environment: Mapping[str, str] | None = None
) -> TrainConfig:
    """The configuration of a run; an unknown setting is refused wherever it stands."""
    variables = _variables(os.environ if environment is None else environment)
    found = merged(merged({} if file is None else read(file), variables), given)
    try:
        return TrainConfig(**found)
    except ValueError as error:
        where = "" if file is None else f" (in {file}, or on the command line)"
        raise ValueError(f"{error}{where}") from None


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Settings within settings, the second before the first.

    >>> merged({"optim": {"rate": 1, "clip": 2}}, {"optim": {"rate": 3}})
    {'optim': {'rate': 3, 'clip': 2}}
    """
    both = dict(under)
    for name, value in over.items():
        inner = isinstance(value, Mapping) and isinstance(both.get(name), Mapping) and name != "objectives"
        both[name] = merged(both[name], value) if inner else value
    return both


def read(file: Path) -> dict[str, Any]:
    """The settings in a file, by the ending of its name."""
    found = read_settings(file)
    if not isinstance(found, dict):
        raise ValueError(f"{file} holds {type(found).__name__} where settings are expected, as in `steps: 1000`")
    return found


def saved(place: Path) -> Path:
    """The settings of a run that is to be resumed."""
    recover(place)
    file = place / CONFIG
    if not file.is_file():
        raise ValueError(f"{place} is no run that could be resumed: it has no config.yaml")
    return file


def free_place(config: TrainConfig) -> Path:
    """A directory of runs/ that nobody has taken yet."""
    stem = Path(config.data.train[0].replace(":", "-")).name.split(".")[0].strip("*-") or config.task
    names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())


def written(config: TrainConfig) -> str:
    """The configuration as YAML."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _variables(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in environment.items():
        if name.startswith(PREFIX):
            nested: Any = _value(name, value)
            for part in reversed(name.removeprefix(PREFIX).lower().split("__")):
                nested = {part: nested}
            found = merged(found, nested)
    return found


def _value(name: str, text: str) -> Any:
    try:
        return parse_yaml(text, name)
    except ValueError:
        raise ValueError(f"{name}={text!r} cannot be read: put quotes around it") from None
