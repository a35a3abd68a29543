"""A page in a real browser, with a clock: chromium, driven by playwright."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# From the event to the end of the frame that follows it: what the page does about it is drawn by then.
CLOCK = """
window.times = [];
addEventListener("pointermove", () => {
  const start = performance.now();
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => times.push(performance.now() - start);
    channel.port2.postMessage(null);
  });
}, true);
"""
# A second frame begins when the first one has been drawn.
_FRAME = "requestAnimationFrame(() => requestAnimationFrame(() => {}))"


def missing() -> str:
    """What a browser lacks here, in a sentence; nothing where there is one."""
    if _path() is None:
        return "there is no chromium here: scripts/browser.sh installs Debian's"
    return "" if find_spec("playwright") else "playwright is not installed: pip install playwright"


def _path() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Visit:
    """An open page; `opened` is how many milliseconds went by until its first frame after loading was drawn."""

    def __init__(self, page: Path, *, width: int = 1280, height: int = 900) -> None:
        self.page, self.width, self.height = page, width, height

    def __enter__(self) -> "Visit":
        from playwright.sync_api import sync_playwright

        self._driver = sync_playwright().start()
        # Root, as in a container, has to go without chromium's sandbox; the page is our own.
        args = ["--no-sandbox", "--disable-gpu"]
        self._browser = self._driver.chromium.launch(executable_path=_path(), args=args)
        self.tab: Any = self._browser.new_page(viewport={"width": self.width, "height": self.height})
        self.tab.goto(self.page.as_uri(), wait_until="load")
        self.opened: float = float(
            self.tab.evaluate(f"new Promise(done => {_FRAME.format('done(performance.now())')})")
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._driver.stop()

    def hovers(self, count: int, *, over: str = ".look-text [data-at]") -> list[float]:
        """Milliseconds from the pointer's arrival to the drawn answer, over so many tokens."""
        places = self.tab.locator(over)
        self.tab.evaluate(CLOCK)
        for place in range(count):
            places.nth(place % places.count()).hover()
            self.tab.wait_for_timeout(50)
        return [float(one) for one in self.tab.evaluate("window.times")]  # a whole number comes as an int
