// The text itself: the chosen token is framed, the others are shaded by their weight, with a bar below and, for the
// largest, the number. A long text is shown in windows, with the whole of it as a strip above.
"use strict";
Look.text = (() => {
  const {element, state, record} = Look;
  const WINDOW = 160, NUMBERS = 5, STEPS = 25, PALE = 0.02;  // PALE: a row whose largest weight is less stays pale
  const STRIP = 600, MANY = 60;  // pixels; tokens that fit into the box

  // For the head that `head()` names: a block for each of the texts that it joins. Gives the function that draws.
  return (parent, head) => {
    const root = element(parent, "div", "look-text");
    let sides = "", blocks = [];
    return names => {
      const layer = record.layers[head().layer];
      root.hidden = Boolean(record.sides[layer.queries].grid && record.sides[layer.keys].grid);
      if (root.hidden) return;
      if (sides !== layer.queries + "/" + layer.keys) {
        sides = layer.queries + "/" + layer.keys;
        root.replaceChildren();
        const ends = layer.queries === layer.keys ? [["row", "column"]] : [["row"], ["column"]];
        blocks = ends.map(one => block(root, record.sides[one[0] === "row" ? layer.queries : layer.keys], one));
      }
      const values = Look.values(head().layer, head().place);
      for (const one of blocks) one(values, names);
    };
  };

  // `ends`: which ends of an attention these tokens are.
  function block(parent, side, ends) {
    const count = side.tokens.length, long = count > WINDOW, figure = element(parent, "figure", "look-block");
    const caption = element(figure, "figcaption"), part = ends[0] === "row" ? " (asks)" : " (answers)";
    element(caption, "span", "", ends.length > 1 ? side.name : side.name + part);
    const strip = long ? overall(figure, caption, side, go) : null;
    const list = element(figure, "ol", "look-tokens");
    Object.assign(list, {dir: "ltr", tabIndex: -1});
    list.setAttribute("role", "listbox");
    const [, things] = Look.things(side);
    list.setAttribute("aria-label", things === side.name ? things : `${things} of the ${side.name}`);
    let start = 0, boxes = [], last = null;

    function go(to) {
      start = Math.max(0, Math.min(to, count - WINDOW));
      list.replaceChildren();
      boxes = side.shown.slice(start, start + WINDOW).map((text, at) => token(list, text, start + at));
      if (last) draw(...last);
    }
    const end = pinned => ends.length === 1 ? ends[0] : pinned ? Look.opposite(Look.chosen()) : Look.chosen();
    list.addEventListener("pointerover", event => point(event, at => Look.hover(end(state.pinned), at)));
    list.addEventListener("click", event => point(event, at => Look.click(end(false), at)));
    const marked = name => ends.includes(name) ? state[name] : null;

    function draw(values, names) {
      last = [values, new Set()];
      const mine = ends.includes(Look.chosen()), chosen = mine ? marked(Look.chosen()) : null;
      const outside = chosen !== null && (chosen < start || chosen >= start + WINDOW);
      if (long && outside && names.has(Look.chosen())) return go(chosen - WINDOW / 2);
      const answers = ends.includes(Look.opposite(Look.chosen())) ? values : null;
      shade(boxes, answers, start);
      const other = marked(Look.opposite(Look.chosen()));
      frame(list, boxes[chosen === null ? -1 : chosen - start], boxes[other === null ? -1 : other - start]);
      if (chosen !== null && names.has(Look.chosen()) && !list.matches(":hover")) reveal(list, boxes[chosen - start]);
      strip?.(answers, start);
    }
    go(0);
    return draw;
  }

  function token(list, text, at) {
    const made = element(list, "li", "look-token"), inside = element(made, "span", "", text);
    inside.dir = "auto";
    made.number = element(made, "small");
    made.dataset.at = at;
    made.title = text + " (" + at + ")";
    made.tabIndex = -1;
    made.setAttribute("role", "option");
    return made;
  }
  function point(event, then) {
    const made = event.target.closest("[data-at]");
    if (made) then(Number(made.dataset.at));
  }

  function shade(boxes, values, start) {
    const best = values ? Look.top(values, NUMBERS) : [], largest = values ? Look.peak() : 0;
    boxes.forEach((box, place) => {
      const at = start + place, weight = values ? values[at] || 0 : 0;
      // Few steps: boxes whose shade stays need not be styled anew.
      const heat = largest ? Math.round(STEPS * Math.sqrt(weight / Math.max(largest, PALE))) / STEPS : 0;
      if (box.heat !== heat) box.style.setProperty("--weight", box.heat = heat);
      const number = weight >= 0.01 && best.includes(at) ? Math.round(100 * weight) + "%" : "";
      if (box.number.textContent !== number) box.number.textContent = number;
      box.classList.toggle("none", Boolean(values) && !(weight > 0));
    });
  }
  // Into the middle of its box, without moving the page. Asked for only where there is more than the box can show.
  function reveal(list, made) {
    if (!made || list.children.length < MANY) return;
    const at = made.offsetTop, {scrollTop, clientHeight} = list;
    if (at < scrollTop || at + made.offsetHeight > scrollTop + clientHeight) list.scrollTop = at - clientHeight / 2;
  }
  // The chosen token has the frame, and is where the Tab key goes.
  function frame(list, chosen, other) {
    const moved = list.contains(document.activeElement);
    for (const made of list.querySelectorAll(".chosen,.other")) {
      made.classList.remove("chosen", "pinned", "other");
      made.setAttribute("aria-selected", "false");
      made.tabIndex = -1;
    }
    if (other !== chosen) other?.classList.add("other");
    (chosen ?? list.firstElementChild)?.setAttribute("tabindex", "0");
    if (!chosen) return;
    chosen.classList.add("chosen");
    chosen.classList.toggle("pinned", state.pinned);
    chosen.setAttribute("aria-selected", "true");
    if (moved && document.activeElement !== chosen) chosen.focus();
  }

  // The whole of a long text in one line of pixels, and the way through it.
  function overall(figure, caption, side, go) {
    const count = side.tokens.length, [, things] = Look.things(side);
    const tools = element(caption, "span", "look-pages"), back = element(tools, "button", "", "‹");
    const range = element(tools, "span"), on = element(tools, "button", "", "›");
    const strip = element(figure, "div", "look-strip"), canvas = element(strip, "canvas"), mark = element(strip, "i");
    let here = null;
    mark.style.width = 100 * WINDOW / count + "%";
    back.setAttribute("aria-label", "Earlier " + things);
    on.setAttribute("aria-label", "Later " + things);
    back.addEventListener("click", () => go(here - WINDOW));
    on.addEventListener("click", () => go(here + WINDOW));
    strip.addEventListener("click", event => {
      const area = strip.getBoundingClientRect();
      go(Math.round((event.clientX - area.left) / area.width * count - WINDOW / 2));
    });
    return (values, start) => {
      if (here !== start) {
        here = start;
        const [from, last, all] = [start, start + WINDOW - 1, count].map(one => one.toLocaleString("en"));
        range.textContent = `${things} ${from}–${last} of ${all}`;
        mark.style.left = 100 * start / count + "%";
      }
      const width = Math.min(count, STRIP), pooled = new Float32Array(width);
      (values ?? []).forEach((value, at) => {
        const pixel = Math.floor(at * width / count);
        if (value > pooled[pixel]) pooled[pixel] = value;
      });
      Look.paint(canvas, pooled, width, Math.max(Look.peak(), PALE));
    };
  }
})();
