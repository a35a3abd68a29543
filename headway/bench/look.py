"""`headway bench look`: what it costs to see attention, beside the way of the library that people use.

GPT-2 in its smallest size reads a long text: once as it is, once watched, and once by transformers with
`output_attentions=True`, which takes the slow path and keeps every weight. Then the page of that text, 1,000 tokens and
144 heads, in a real browser: how long it takes to open, and to answer the pointer.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from headway.bench.measure import peak_memory
from headway.bench.row import Row, Target, counted, unmeasured
from headway.bench.run import Bench
from headway.config import LanguageConfig, Special
from headway.hub import save
from headway.look.page import document
from headway.look.reading import ModelInputs, read
from headway.look.record import Look
from headway.look.view import look_at
from headway.models import build
from headway.observe.attention import captured
from headway.observe.weights import CapturedAttention
from headway.presets import preset

LENGTH, HOVERS = 1000, 40
ASKED = slice(0, 1)  # of the rows of one head
THEIRS = 'transformers is not installed: pip install "headway[hf]"'
NOT_SLOWER = Target("at most 1.05 x the pass that nobody watches", at_most=1.05)
LEANER = Target("at most 0.25 x transformers", at_most=0.25)
SECONDS = Target("opens within 3 s", at_most=3000.0, ratio=False)
PROMPT = Target("answers within 50 ms", at_most=50.0, ratio=False)


def capture(run: Bench) -> Iterator[Row]:
    """The time and the memory of a pass that is watched."""
    length = LENGTH // 4 if run.quick else LENGTH
    row = Row("look", "GPT-2 124M, a pass watched", f"{length} tokens", "float32")
    memory = replace(row, model="GPT-2 124M, memory of that without logits", unit="MB")
    if find_spec("transformers") is None:
        yield unmeasured(row, THEIRS, target=NOT_SLOWER)
        return
    with pair(attn_implementation="eager") as (ours, theirs):
        tokens = _tokens(ours.config.vocabulary, length)
        contenders = {
            "unwatched": lambda: ours(tokens),
            "transformers, attentions": lambda: theirs(tokens, output_attentions=True).logits,
            "headway": lambda: watched(ours, tokens)[0],
        }
        with torch.inference_mode():
            yield run.race(row, contenders, target=NOT_SLOWER, longest=run.seconds if run.quick else 60.0)
            # Without the logits, which are 200 MB in either library and nobody's weights.
            ours_bytes = peak_memory(lambda: watched(ours, tokens, ours.hidden_states)).peak / 1e6
            their_bytes = (
                peak_memory(lambda: tuple(theirs.transformer(tokens, output_attentions=True).values())).peak / 1e6
            )
            yield counted(memory, ours_bytes, {"transformers, attentions": their_bytes}, target=LEANER)


def watched(
    model: Any, tokens: Tensor, read: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, list[CapturedAttention], Tensor]:
    """The model's output (or what `read` gives), what was captured, and one row of one head of each."""
    with captured(model) as seen:
        out = (read or model)(tokens)
    return out, seen, torch.stack([one.weights(ASKED, ASKED)[0, 0, 0] for one in seen])


def browse(run: Bench) -> Iterator[Row]:
    """The page in a browser: from the address to the first picture, and from the pointer to the next one."""
    length = LENGTH // 4 if run.quick else LENGTH
    row = Row("look", "the page opens", f"{length} tokens x 144 heads", "16 bits")
    hover = replace(row, model="it answers the pointer")
    if why := missing():
        yield from (unmeasured(one, why, target=target) for one, target in ((row, SECONDS), (hover, PROMPT)))
        return
    with TemporaryDirectory() as place:
        page = Path(place) / "page.html"
        page.write_text(document(_record(length)), encoding="utf-8")
        size = f"{page.stat().st_size / 1e6:.1f} MB"
        with Visit(page) as visit:
            yield counted(replace(row, note=size), visit.opened, target=SECONDS)
            times = sorted(visit.hovers(HOVERS // 4 if run.quick else HOVERS))
            worst = f"the slowest of {len(times)} took {times[-1]:.0f} ms"
            yield counted(replace(hover, note=worst), times[len(times) // 2], target=PROMPT)


def _record(length: int) -> Look:
    """The smallest GPT-2 on tokens by chance: what there is to draw does not depend on what it learnt."""
    config = preset("gpt2")
    assert isinstance(config, LanguageConfig)
    given = ModelInputs(inputs=_tokens(config.vocabulary, length))
    return look_at(read(build(config).eval(), given, title="GPT-2, random weights"), lens=False)


@contextmanager
def pair(**options: Any) -> Iterator[tuple[Any, Any]]:
    """The same random weights in both libraries; no token ends a text, so that all have the same work.

    `options` are those of transformers' from_pretrained.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    config = preset("gpt2")
    assert isinstance(config, LanguageConfig)
    model = build(config.replace(special=Special())).eval()
    with TemporaryDirectory() as place:
        save(model, f"{place}/model")
        yield model, AutoModelForCausalLM.from_pretrained(f"{place}/model", **options).eval()


def _tokens(vocabulary: int, length: int) -> Tensor:
    return torch.randint(0, vocabulary, (1, length), generator=torch.Generator().manual_seed(7))


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


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {"capture": capture, "page": browse}
