"""The page of a record in a real browser, and the few things that tests do with it."""

from pathlib import Path
from typing import Any

from headway.look.page import document
from headway.look.record import Look
from tests.browser import Opened


class Shown(Opened):
    """The page of a record."""

    def __init__(self, browser: Any, folder: Path, look: Look, **settings: Any) -> None:
        path = folder / "page.html"
        path.write_text(document(look), encoding="utf-8")
        super().__init__(browser, path, **settings)

    def __enter__(self) -> "Shown":
        return self

    def settle(self) -> None:
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def until(self, script: str) -> None:
        """Wait for what the script says to be true; the page's policy forbids playwright's own way."""
        for _ in range(600):
            if self.page.evaluate(script):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"never true: {script}")

    def point(self, at: int, *, pane: str = "first") -> None:
        self.page.hover(f".look-pane.{pane} .look-token[data-at='{at}']")
        self.settle()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def state(self, *names: str) -> list[Any]:
        return self.page.evaluate("names => names.map(name => Look.state[name])", list(names))

    def status(self) -> str:
        return self.page.inner_text("#look-status")

    def numbers(self) -> list[list[str]]:
        """The table of the chosen token, line by line."""
        return self.page.evaluate(
            "() => [...document.querySelectorAll('#look-largest tbody tr')]"
            ".map(row => [...row.children].map(cell => cell.textContent))"
        )


def percent(value: float) -> str:
    if value == 0:
        return "0 %"
    if value < 1e-4:
        return "< 0.01 %"
    return f"{100 * value:.2f} %" if value < 0.01 else f"{100 * value:.1f} %"


def near(text: str, value: float) -> bool:
    """The text says the number, give or take a half of its last digit (and the last bit of it)."""
    return value < 1.01e-4 if text.startswith("<") else abs(float(text.rstrip(" %")) / 100 - value) < 5.1e-4
