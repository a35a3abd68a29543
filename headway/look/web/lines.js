// Lines between two columns of tokens, those that ask and those that answer: the wider, the larger the weight. A short
// text has all its lines; of a long one only the chosen token's, with the tokens that matter to it.
"use strict";
Look.lines = (() => {
  const {element, state, record} = Look;
  const SHORT = 40, FITS = 33, BEST = 10, AROUND = 2, LEAST = 0.001;
  const LOW = 22, HIGH = 36, ALL = 400;  // pixels of a token, and of all
  const SVG = "http://www.w3.org/2000/svg";
  const all = side => side.shown.map((_, at) => at);

  return (parent, head) => {
    const figure = element(parent, "figure", "look-lines"), caption = element(figure, "figcaption");
    element(caption, "span", "", "Lines");
    const least = threshold(caption), field = element(figure, "div", "look-field");
    const left = element(field, "ol", "asks"), svg = drawing(field), right = element(field, "ol", "answers");
    let drawn = "";
    Look.fading(field);
    for (const [list, end] of [[left, "row"], [right, "column"]]) listen(list, end);

    return names => {
      const {layer, place} = head(), asks = Look.queries(layer), answers = Look.keys(layer);
      figure.hidden = Boolean(asks.grid && answers.grid);
      parent.classList.toggle("alone", figure.hidden);  // the map is
      if (figure.hidden) return;
      const short = Math.max(asks.tokens.length, answers.tokens.length) <= SHORT;
      least.hidden = !short;
      const values = Look.values(layer, place) ?? [];
      const places = short ? [all(asks), all(answers)] : around(asks, answers, values);
      const now = short ? [layer, place, state.threshold].join("/") : "";
      if (!short || drawn !== now) {
        column(left, asks, places[0], !short);
        column(right, answers, places[1], !short);
        height(svg, Math.max(places[0].length, places[1].length));
        curves(svg.base, short ? every(layer, place) : [], places);
        drawn = now;
      }
      figure.classList.toggle("some", values.length > 0);
      curves(svg.top, those(values), places);
      emphasize(left, right, values);
      // Where something stands has to be measured, which takes a while: only where it may be out of sight.
      if (short && places[0].length > FITS && !field.matches(":hover")) reveal(field);
    };
  };

  function reveal(field) {
    const made = field.querySelector(".chosen");
    if (!made) return;
    const at = made.offsetTop;
    if (at < field.scrollTop || at + made.offsetHeight > field.scrollTop + field.clientHeight) {
      field.scrollTop = at - field.clientHeight / 2;
    }
  }

  function threshold(caption) {
    const label = element(caption, "label", "", "from ");
    const input = element(label, "input"), output = element(label, "output");
    Object.assign(input, {type: "range", min: 0, max: 50, value: 100 * state.threshold, step: 1});
    input.setAttribute("aria-label", "Draw lines from this weight on, in percent");
    input.addEventListener("input", () => Look.set({threshold: input.value / 100}));
    Look.on((_, names) => {
      if (!names.has("threshold")) return;
      input.value = Math.round(100 * state.threshold);
      output.textContent = input.value + " %";
    });
    return label;
  }

  function drawing(parent) {
    const svg = parent.appendChild(document.createElementNS(SVG, "svg"));
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    svg.base = svg.appendChild(document.createElementNS(SVG, "g"));
    svg.top = svg.appendChild(document.createElementNS(SVG, "g"));
    svg.base.setAttribute("class", "base");
    return svg;
  }
  function height(svg, rows) {
    svg.row = Math.min(Math.max(Math.floor(ALL / Math.max(rows, 1)), LOW), HIGH);
    svg.setAttribute("viewBox", `0 0 100 ${rows * svg.row}`);
    svg.style.height = rows * svg.row + "px";
    svg.parentElement.style.setProperty("--row", svg.row + "px");
  }

  // The chosen token with its neighbours on one side, on the other the tokens with the largest weights, gaps as null.
  function around(asks, answers, values) {
    const to = state.direction === "to", at = state[Look.chosen()], count = (to ? asks : answers).tokens.length;
    const start = Math.max(at - AROUND, 0), end = at === null ? 0 : Math.min(at + AROUND + 1, count);
    const near = Array.from({length: Math.max(end - start, 0)}, (_, place) => start + place);
    const best = [], sorted = [...Look.top(values, BEST)].sort((one, two) => one - two);
    sorted.forEach((place, rank) => {
      if (rank && place > sorted[rank - 1] + 1) best.push(null);
      best.push(place);
    });
    return to ? [near, best] : [best, near];
  }

  function every(layer, place) {
    const found = [], [first, count] = record.layers[layer].rows;
    for (let row = first; row < first + count; row++) {
      Look.weights(layer, place, row).forEach((weight, key) => {
        if (weight >= Math.max(state.threshold, LEAST)) found.push([row, key, weight]);
      });
    }
    return found;
  }
  function those(values) {
    const found = [], at = state[Look.chosen()];
    values.forEach((weight, other) => {
      if (weight >= LEAST) found.push(state.direction === "to" ? [at, other, weight] : [other, at, weight]);
    });
    return found;
  }

  function curves(group, found, [asks, answers]) {
    const from = new Map(asks.map((at, place) => [at, place])), to = new Map(answers.map((at, place) => [at, place]));
    const {row: high} = group.parentElement;
    group.replaceChildren();
    for (const [row, key, weight] of found) {
      if (!from.has(row) || !to.has(key)) continue;
      const y1 = (from.get(row) + 0.5) * high, y2 = (to.get(key) + 0.5) * high;
      const path = group.appendChild(document.createElementNS(SVG, "path"));
      path.setAttribute("d", `M0 ${y1}C40 ${y1} 60 ${y2} 100 ${y2}`);
      path.setAttribute("stroke-width", (0.6 + 8 * weight).toFixed(2));
      path.setAttribute("stroke-opacity", (0.15 + 0.8 * Math.sqrt(weight)).toFixed(3));
      Object.assign(path.dataset, {row, key});
    }
  }

  function column(list, side, places, numbered) {
    list.replaceChildren();
    for (const at of places) {
      const made = element(list, "li", at === null ? "gap" : "look-end"), text = at === null ? "⋮" : side.shown[at];
      element(made, "span", "", text).dir = "auto";
      if (at !== null && numbered) element(made, "small", "", String(at));
      if (at !== null) Object.assign(made.dataset, {at});
      if (at !== null) made.title = text + " (" + at + ")";
    }
  }
  function listen(list, end) {
    const at = event => event.target.closest("[data-at]");
    const calm = () => (end === "row" ? Look.queries() : Look.keys()).tokens.length <= SHORT;  // else it would run away
    list.addEventListener("pointerover", event => at(event) && calm() && Look.hover(end, Number(at(event).dataset.at)));
    list.addEventListener("click", event => at(event) && Look.click(end, Number(at(event).dataset.at)));
  }
  function emphasize(left, right, values) {
    const best = values.length ? Look.peak() : 0;
    for (const [list, end] of [[left, "row"], [right, "column"]]) {
      for (const made of list.querySelectorAll("[data-at]")) {
        const at = Number(made.dataset.at), answers = end !== Look.chosen();
        made.classList.toggle("chosen", !answers && at === state[end]);
        made.style.setProperty("--weight", answers && best ? Math.sqrt((values[at] || 0) / best).toFixed(2) : "0");
      }
    }
  }
})();
