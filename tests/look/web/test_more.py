"""Next tokens by layer, heads by role and patches as a reader meets them: in a real browser, from a file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.look.page import document
from headway.look.record import Look
from headway.render import legible
from tests.browser import Opened, browser
from tests.look.web.more_example import HOSTILE, WORDS, image_look, pair_look, text_look

LOOKS = {
    "text": text_look(),
    "image": image_look(),
    "bare": image_look(picture=False, packed=True),
    "pair": pair_look(),
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("pages")
    return {name: _written(place / f"{name}.html", look) for name, look in LOOKS.items()}


def _written(path: Path, look: Look) -> Path:
    path.write_text(document(look), encoding="utf-8")
    return path


def percent(value: Any) -> str:
    if value == 0:
        return "0 %"
    return "< 0.01 %" if value < 1e-4 else f"{100 * value:.{2 if value < 0.01 else 1}f} %"


def settled(page: Any) -> Any:
    """What is chosen, after the parts of the page have been told."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.evaluate("Look.state")


def chosen(page: Any, **changes: Any) -> Any:
    page.evaluate("changes => Look.set(changes)", changes)
    return settled(page)


def texts(page: Any, selector: str) -> list[str]:
    """All that is written there, in sight or below."""
    return page.locator(selector).all_text_contents()


# ---- next tokens ----


def test_every_depth_shows_the_lens_of_the_chosen_token(chromium: Any, pages: dict[str, Path]) -> None:
    lens = LOOKS["text"].lens
    assert lens
    with Opened(chromium, pages["text"]) as seen:
        for row in lens.places:
            chosen(seen.page, row=row)
            found = [token for depth in lens.tokens for token in depth[row]]
            assert texts(seen.page, "#look-lens td span") == [legible(token) for token in found]
            assert texts(seen.page, "#look-lens td b") == [
                percent(one) for depth in lens.probabilities for one in depth[row]
            ]
            marked = seen.page.locator("#look-lens td").evaluate_all(
                "all => all.map(one => one.className === 'answer')"
            )
            assert marked == [token == lens.tokens[-1][row][0] for token in found] and sum(marked) > 1
        everything = {token for depth in lens.tokens for row in depth for token in row}
        assert everything >= set(HOSTILE) and seen.quiet()  # markup, marks that turn the line around, controls


def test_the_row_of_tokens_tells_where_the_model_makes_up_its_mind(chromium: Any, pages: dict[str, Path]) -> None:
    lens = LOOKS["text"].lens
    assert lens
    answers = [row[0] for row in lens.tokens[-1]]
    first = [next(d for d, depth in enumerate(lens.tokens) if depth[at][0] == one) for at, one in enumerate(answers)]
    with Opened(chromium, pages["text"]) as seen:
        assert texts(seen.page, "#look-lens li small") == [str(depth) for depth in first]
        assert len(set(first)) > 1
        seen.page.locator("#look-lens li button").nth(4).click()
        state = settled(seen.page)
        assert (state["row"], state["pinned"], state["direction"]) == (4, True, "to")
        seen.page.keyboard.press("ArrowRight")  # once, although the page has arrow keys of its own
        assert settled(seen.page)["row"] == 5
        assert seen.page.evaluate("document.activeElement.dataset.place") == "5"
        assert texts(seen.page, "#look-lens .told")[0].startswith(f"After {WORDS[5]} (token 5)")


def test_a_token_of_the_lens_brings_a_layer_that_has_it(chromium: Any, pages: dict[str, Path]) -> None:
    with Opened(chromium, pages["pair"]) as seen:
        assert settled(seen.page)["layer"] == 0  # of the image
        seen.page.locator("#look-lens li button").nth(3).click()
        state = settled(seen.page)
        assert (state["layer"], state["row"], state["pinned"]) == (1, 3, True) and seen.quiet()


def test_a_long_text_is_shown_in_windows(chromium: Any, tmp_path: Path) -> None:
    look = text_look(layers=1, heads=1, words=WORDS * 23)
    both_ways = replace(look, layers=(replace(look.layers[0], kind="encoder"),))
    with Opened(chromium, _written(tmp_path / "long.html", both_ways)) as seen:
        assert texts(seen.page, "#look-lens .told")[0].startswith("At tired")
        assert 0 < seen.page.locator("#look-lens li").count() <= 120
        seen.page.locator("#look-lens .more:visible").first.click()
        assert settled(seen.page)["row"] == 239
        assert seen.page.locator("#look-lens li").count() == 120 and seen.quiet()


# ---- roles ----


def test_the_table_has_the_numbers_of_every_head(chromium: Any, pages: dict[str, Path]) -> None:
    wanted = []
    for layer in LOOKS["text"].layers:
        for head, one in zip(layer.heads, layer.measures, strict=True):
            share, chance = (percent(of[one.role]) if one.role in of else "–" for of in (one.views, one.chance))
            reach = "–" if one.reach is None else f"{one.reach:.1f}"
            numbers = [share, chance, f"{one.entropy:.2f}", reach, percent(one.largest)]
            wanted.append([layer.label, str(head), one.role, *numbers])
    with Opened(chromium, pages["text"]) as seen:
        rows = seen.page.locator("#look-roles .heads tbody tr").all()
        assert [row.locator("td").all_text_contents() for row in rows] == wanted


def test_a_click_on_a_heading_sorts(chromium: Any, pages: dict[str, Path]) -> None:
    measures = [one for layer in LOOKS["text"].layers for one in layer.measures]
    with Opened(chromium, pages["text"]) as seen:
        names = seen.page.locator("#look-roles thead th").evaluate_all("all => all.map(one => one.dataset.name)")
        for name, written in {"entropy": "{:.2f}", "reach": "{:.1f}", "role": "{}"}.items():
            values = [getattr(one, name) for one in measures]
            known, unknown = [one for one in values if one is not None], values.count(None)
            assert unknown or name != "reach"
            head = seen.page.locator(f"#look-roles th[data-name={name}]")
            for down in (name != "role", name == "role"):
                head.locator("button").click()
                assert head.get_attribute("aria-sort") == ("descending" if down else "ascending")
                # What was not measured is last, whichever way.
                wanted = [written.format(one) for one in sorted(known, reverse=down)] + ["–"] * unknown
                assert texts(seen.page, f"#look-roles .heads td:nth-child({names.index(name) + 1})") == wanted


def test_roles_filter_and_rows_choose(chromium: Any, pages: dict[str, Path]) -> None:
    found = [(at, place) for at, layer in enumerate(LOOKS["text"].layers)
             for place, one in enumerate(layer.measures) if one.role == "previous"]  # fmt: skip
    with Opened(chromium, pages["text"]) as seen:
        rows = seen.page.locator("#look-roles .heads tbody tr")
        button = seen.page.locator("#look-roles .filters button", has_text="previous")
        assert button.text_content().split() == ["previous", str(len(found))]
        button.click()
        assert rows.count() == len(found) > 1 and button.get_attribute("aria-pressed") == "true"
        rows.last.locator("td").last.click()
        state = settled(seen.page)
        assert (state["layer"], state["place"]) == found[-1]
        assert rows.last.get_attribute("aria-current") == "true"
        rows.last.locator("button").focus()
        seen.page.keyboard.press("ArrowUp")
        seen.page.keyboard.press("Enter")
        state = settled(seen.page)
        assert (state["layer"], state["place"]) == found[-2]
        assert seen.page.locator("#look-roles .heads [aria-current]").count() == 1 and seen.quiet()


CONTRAST = """all => {
  const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const light = colour => {
    pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    const part = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map(one => one / 255)
      .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  return Math.min(...all.map(one => {
    const {color, backgroundColor} = getComputedStyle(one), both = [light(color), light(backgroundColor)];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  }));
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_views_are_numbers_that_can_be_read(chromium: Any, pages: dict[str, Path], dark: bool) -> None:
    measures = [one for layer in LOOKS["text"].layers for one in layer.measures]
    with Opened(chromium, pages["text"], dark=dark) as seen:
        seen.page.locator("#look-roles select").select_option("same word")
        shares = [100 * one.views["same word"] for one in measures]
        assert texts(seen.page, "#look-roles .views td") == [f"{one:.{int(one < 9.95)}f}" for one in shares]
        tiles = seen.page.locator("#look-roles .views button")
        shades = tiles.evaluate_all("all => new Set(all.map(one => getComputedStyle(one).backgroundColor)).size")
        assert shades > 5 and tiles.evaluate_all(CONTRAST) >= 4.5
        tiles.nth(7).click()
        state = settled(seen.page)
        assert (state["layer"], state["place"]) == (1, 2)
        seen.page.keyboard.press("ArrowUp")
        seen.page.keyboard.press("ArrowRight")
        seen.page.keyboard.press("Enter")
        state = settled(seen.page)
        assert (state["layer"], state["place"]) == (0, 3)
        assert percent(measures[3].views["same word"]) in seen.page.locator(
            "#look-roles .views [aria-current]"
        ).get_attribute("title")


# ---- patches ----


def _named(look: Look, side: int, token: int) -> str:
    one = look.sides[side]
    if one.grid is None or token < one.extra:
        return one.tokens[token]
    y, x = divmod(token - one.extra, one.grid[1])
    return f"row {y + 1}, column {x + 1}"


def _largest(look: Look, side: int, weights: np.ndarray) -> list[list[str]]:
    order = np.argsort(-weights, kind="stable")[:5]
    return [[_named(look, side, int(at)), percent(weights[at])] for at in order]


def _numbers(page: Any) -> list[list[str]]:
    return [one.locator("span, b").all_text_contents() for one in page.locator("#look-patches ol li").all()]


def _over(page: Any, selector: str, patch: tuple[int, int], grid: tuple[int, int]) -> None:
    """The pointer over a patch, by its row and column."""
    box, (rows, columns) = page.locator(selector).bounding_box(), grid
    place = {"x": (patch[1] + 0.5) * box["width"] / columns, "y": (patch[0] + 0.5) * box["height"] / rows}
    page.locator(selector).hover(position=place)


@pytest.mark.parametrize("name", ["image", "bare"])
def test_a_patch_shows_what_it_attends_to(chromium: Any, pages: dict[str, Path], name: str) -> None:
    look, token = LOOKS[name], 1 + 3 * 11 + 4
    with Opened(chromium, pages[name]) as seen:
        page = seen.page
        assert settled(page)["row"] == 0  # the class token
        _over(page, "#look-patches-row", (3, 4), (7, 11))
        state = settled(page)
        assert (state["row"], state["pinned"]) == (token, False)
        for place in (0, 2):
            chosen(page, place=place)
            assert _numbers(page) == _largest(look, 0, look.layers[0].data.row(place, token))
        page.mouse.down()
        page.mouse.up()
        assert settled(page)["pinned"]
        weights = look.layers[0].data.row(2, token)
        _over(page, "#look-patches-column", (5, 9), (7, 11))
        settled(page)
        assert (
            page.locator("#look-patches [role=status]").inner_text()
            == f"row 6, column 10: {percent(weights[1 + 5 * 11 + 9])}"
        )
        assert page.locator("#look-patches .column .extras").inner_text() == f"[CLS] {percent(weights[0])}"
        assert seen.quiet()


ALPHA = """([selector, y, x, rows, columns]) => {
  const canvas = document.querySelector(selector), pen = canvas.getContext("2d");
  const at = (place, count, size) => Math.floor((place + 0.5) * size / count);
  return pen.getImageData(at(x, columns, canvas.width), at(y, rows, canvas.height), 1, 1).data[3] / 255;
}"""


def test_the_overlay_is_as_strong_as_the_weight(chromium: Any, pages: dict[str, Path]) -> None:
    weights = LOOKS["image"].layers[0].data.row(1, 5)[1:].reshape(7, 11)
    order = np.argsort(-weights, axis=None)
    with Opened(chromium, pages["image"]) as seen:
        chosen(seen.page, place=1, row=5)
        for strength in (0.75, 0.4):
            seen.page.locator("#look-patches-strength").fill(str(100 * strength))
            for at in (order[5], order[11], order[-1]):  # behind those with a number on them
                y, x = divmod(int(at), 11)
                for selector in ("#look-patches-column canvas", "#look-patches .every button:nth-child(2) canvas"):
                    alpha = seen.page.evaluate(ALPHA, [selector, y, x, 7, 11])
                    assert alpha == pytest.approx(strength * weights[y, x] / weights.max(), abs=0.01)


def test_patches_by_keys_and_the_heads_beside_each_other(chromium: Any, pages: dict[str, Path]) -> None:
    look = LOOKS["image"]
    with Opened(chromium, pages["image"]) as seen:
        page = seen.page
        page.locator("#look-patches-row").focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowUp", "ArrowDown"):
            page.keyboard.press(key)
            state = settled(page)
        assert (state["row"], state["pinned"]) == (1 + 11, True)  # from the class token to the first patch, then down
        assert page.locator("#look-patches .row figcaption").inner_text() == "Asks: row 2, column 1"
        largest = [percent(layer.row(place, 12)[1:].max()) for layer in [look.layers[0].data] for place in range(3)]
        assert texts(page, "#look-patches .every span:last-child") == largest
        page.locator("#look-patches .every button").nth(1).click()
        assert settled(page)["place"] == 1
        page.get_by_role("button", name="[CLS]").first.click()
        assert settled(page)["row"] == 0
        assert (
            page.locator("#look-patches .row .extras button").get_attribute("aria-pressed") == "true" and seen.quiet()
        )


def test_who_attends_to_a_patch(chromium: Any, pages: dict[str, Path]) -> None:
    look, token = LOOKS["bare"], 1 + 2 * 11 + 3
    with Opened(chromium, pages["bare"]) as seen:
        chosen(seen.page, layer=0, place=0)
        _over(seen.page, "#look-patches-column", (2, 3), (7, 11))
        state = settled(seen.page)
        assert (state["direction"], state["column"]) == ("from", token)
        seen.page.wait_for_function("Look.column(0, 0, Look.state.column).done")
        settled(seen.page)
        column = np.array([look.layers[0].data.row(0, row)[token] for row in range(78)])
        assert _numbers(seen.page) == _largest(look, 0, column)
        assert seen.page.locator("#look-patches .column figcaption").inner_text() == "Answers: row 3, column 4"


def test_a_text_on_one_side(chromium: Any, pages: dict[str, Path]) -> None:
    look = LOOKS["pair"]
    with Opened(chromium, pages["pair"]) as seen:
        for layer, row, shown in ((2, 4, "column"), (3, 7, "row")):
            seen.page.evaluate(f"Look.select({layer}, 0)")
            chosen(seen.page, row=row)
            keys = look.layers[layer].keys
            assert _numbers(seen.page) == _largest(look, keys, look.layers[layer].data.row(0, row))
            assert seen.page.locator("#look-patches figure .pane").get_attribute("id") == f"look-patches-{shown}"
            seen.page.locator("#look-patches figure select").select_option("9")
            state = settled(seen.page)
            assert state[{"column": "row", "row": "column"}[shown]] == 9 and state["pinned"] and seen.quiet()


# ---- all of them ----


@pytest.mark.parametrize(("name", "dark"), [("text", False), ("image", True), ("bare", False), ("pair", True)])
def test_a_phone_has_room_for_it_and_what_is_not_there_is_hidden(
    chromium: Any, pages: dict[str, Path], name: str, dark: bool
) -> None:
    with Opened(chromium, pages[name], width=390, dark=dark) as seen:
        for layer in range(len(LOOKS[name].layers)):
            seen.page.evaluate(f"Look.select({layer}, 0)")
            settled(seen.page)
            assert seen.quiet() and not seen.overflows()
            one = LOOKS[name].layers[layer]
            grids = any(LOOKS[name].sides[side].grid for side in (one.queries, one.keys))
            assert seen.page.locator("#look-patches").is_visible() == grids
        assert seen.page.locator("#look-lens").is_visible() == (LOOKS[name].lens is not None)
        assert seen.page.locator("#look-roles").is_visible()


def test_channels_have_no_patches(chromium: Any, tmp_path: Path) -> None:
    look = LOOKS["image"]
    layers = tuple(replace(layer, kind="channels") for layer in look.layers)
    with Opened(chromium, _written(tmp_path / "channels.html", replace(look, layers=layers))) as seen:
        assert not seen.page.locator("#look-patches").is_visible() and seen.quiet()
