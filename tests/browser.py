"""A real browser for the tests of pages: Debian's chromium, driven by playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def _missing(what: str) -> None:
    sentence = f"{what}: scripts/browser.sh installs chromium, pip install playwright the driver"
    if os.environ.get("HEADWAY_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{sentence} (HEADWAY_REQUIRE_BROWSER=1 does not let this test be skipped)")
    pytest.skip(sentence)


@contextmanager
def browser() -> Iterator[Any]:
    """A browser, or a skip with its reason; with HEADWAY_REQUIRE_BROWSER=1 a failure."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        _missing("there is no chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("there is no playwright")
        raise
    with sync_playwright() as driver:
        # Root, as in a container, has to go without chromium's sandbox; the pages are our own.
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


class Opened:
    """A page from a file, with everything that it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, *, width: int = 1100, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page, self.said, self.asked = self.context.new_page(), [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.address = path.as_uri()

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def quiet(self) -> bool:
        """No complaint, and no request but for the page itself (and what it carries within)."""
        fetched = [url for url in self.asked if url != self.address and not url.startswith("data:")]
        assert self.said == [] and fetched == []
        return True

    def overflows(self) -> bool:
        """Whether one has to scroll sideways."""
        return self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
