// Attention over an image: the patch that asks, and the picture with the weights of that patch laid over it; or the
// patch that answers, and those that ask it.
"use strict";
(() => {
  const root = document.getElementById("look-patches");
  if (!root) return;
  const {record, element, percent, state} = Look, {spot, named, token, largest, pane, under, paint} = Look.patches;
  const ENDS = ["row", "column"], LARGEST = 5;  // weights as numbers
  const sideOf = end => end === "row" ? Look.queries() : Look.keys();
  const grids = at => record.layers[at].kind !== "channels" && (Look.queries(at).grid || Look.keys(at).grid);
  root.hidden = !record.layers.some((_, at) => grids(at));
  if (root.hidden) return;
  let parts = null, built = null, begun = null;

  function build() {
    root.replaceChildren();
    element(root, "h3", "", "Attention over patches");
    element(root, "p", "said", "Point at what asks to see where it looks, or at what answers to see who looks at it; "
      + "a click holds it. The strongest colour of a picture is its largest weight.");
    const big = element(root, "div", "big");
    parts = {every: []};
    for (const end of ENDS) parts[end] = figure(element(big, "figure", end), end);
    const numbers = element(big, "div", "largest");
    element(numbers, "h4", "", "Largest weights");
    parts.largest = element(numbers, "ol");
    parts.rest = element(numbers, "p", "said");
    slider(numbers);
    parts.status = element(numbers, "p", "reading");
    parts.status.setAttribute("role", "status");
    element(root, "h4", "", `All heads of ${Look.title(state.layer).toLowerCase()}`);
    parts.small = element(root, "div", "every");
  }

  // One end of the attention: its grid and the class token, or a list of tokens where it is a text.
  function figure(parent, end) {
    const side = sideOf(end), made = {caption: element(parent, "figcaption"), pane: null, extras: []};
    if (!side.grid) return Object.assign(made, {list: list(parent, side, end)});
    made.pane = pane(parent, side);
    listen(made.pane, end);
    const extras = element(parent, "div", "extras");
    for (let at = 0; at < side.extra; at++) {
      made.extras.push(element(extras, "button"));
      made.extras[at].addEventListener("click", () => Look.click(end, at));
    }
    return made;
  }

  function listen(one, end) {
    Object.assign(one.box, {tabIndex: 0, id: "look-patches-" + end});
    one.box.setAttribute("role", "group");
    const what = end === "row" ? "Patches that ask" : "Patches that answer";
    one.box.setAttribute("aria-label", what + ": arrow keys choose one");
    one.box.addEventListener("click", event => Look.click(end, under(one, event)));
    one.box.addEventListener("pointermove", event => {
      if (event.pointerType === "mouse") Look.hover(end, under(one, event));
    });
    one.box.addEventListener("pointerleave", () => {
      if (state.pinned && end !== Look.chosen()) Look.set({[end]: null});
    });
    one.box.addEventListener("keydown", event => step(event, end));
  }

  function list(parent, side, end) {
    const made = element(element(parent, "label", "", "Token "), "select");
    side.shown.forEach((text, at) => { element(made, "option", "", `${at}: ${text}`).value = at; });
    made.addEventListener("change", () => choose(end, Number(made.value)));
    return made;
  }

  function slider(parent) {
    const input = element(element(parent, "label", "strength", "Overlay "), "input");
    Object.assign(input, {id: "look-patches-strength", type: "range", min: 0, max: 100});
    input.value = 100 * Look.patches.strength;
    input.addEventListener("input", () => { Look.patches.strength = input.value / 100; draw(); });
  }

  const choose = (end, at) => Look.set({
    [end]: at, [Look.opposite(end)]: null, direction: end === "row" ? "to" : "from", pinned: true,
  });
  const WAYS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  function step(event, end) {
    const way = WAYS[event.key], side = sideOf(end), [first, last] = Look.limits(end);
    if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();  // the page's own arrow keys would move it once more
    const from = spot(side, state[end]), [rows, columns] = side.grid;
    const near = (at, count) => Math.max(0, Math.min(count - 1, at));
    const to = from ? token(side, {y: near(from.y + way[0], rows), x: near(from.x + way[1], columns)}) : side.extra;
    choose(end, Math.max(first, Math.min(last, to)));
  }

  // An image is entered by its class token or in its middle, not at the end as a text is.
  function begin() {
    const side = Look.queries(), [first, last] = Look.limits("row");
    if (begun === side || state.pinned || !side.grid) return;
    begun = side;
    const middle = token(side, {y: Math.floor(side.grid[0] / 2), x: Math.floor(side.grid[1] / 2)});
    Look.set({row: Math.max(first, Math.min(last, side.extra ? 0 : middle)), column: null, direction: "to"});
  }

  function draw() {
    const end = Look.chosen(), other = Look.opposite(end), values = Look.values(state.layer, state.place);
    const top = values ? Look.top(values, LARGEST) : [], side = sideOf(other);
    caption(end, other);
    write(side, values, top, state[other]);
    extras(end, null);
    extras(other, values);
    const ranks = new Map(top.map((at, rank) => [at, rank + 1]).filter(([at]) => spot(side, at)));
    if (parts[end].pane) paint(parts[end].pane, {framed: state[end]});
    const same = Look.layer().queries === Look.layer().keys;
    const framed = same ? state[end] : null;
    if (parts[other].pane) paint(parts[other].pane, {weights: values, framed, pointed: state[other], ranks});
    drawEvery(end, side, framed);
  }

  function caption(end, other) {
    const who = state[end] === null ? "–" : named(sideOf(end), state[end]);
    const head = Look.named(state.layer, state.place);
    parts[end].caption.textContent = (end === "row" ? "Asks: " : "Answers: ") + who;
    parts[other].caption.textContent = head + (end === "row" ? " attends to" : ", attended by");
    for (const one of ENDS) if (parts[one].list) parts[one].list.value = state[one] ?? "";
  }

  function extras(end, values) {
    parts[end].extras.forEach((button, at) => {
      button.textContent = sideOf(end).shown[at] + (values ? " " + percent(values[at] || 0) : "");
      button.setAttribute("aria-pressed", String(end === Look.chosen() && at === state[end]));
    });
  }

  function write(side, values, top, pointed) {
    parts.largest.replaceChildren();
    for (const at of top) {
      const made = element(parts.largest, "li");
      element(made, "span", "", named(side, at)).dir = "auto";
      element(made, "b", "", percent(values[at]));
      made.style.setProperty("--share", (100 * values[at]).toFixed(1) + "%");
    }
    const rest = values ? values.reduce((sum, one, at) => top.includes(at) ? sum : sum + (one || 0), 0) : 0;
    parts.rest.textContent = values ? `All others together ${percent(rest)}.` : "The page does not hold this row.";
    const read = values && pointed !== null && pointed < values.length;
    parts.status.textContent = read ? `${named(side, pointed)}: ${percent(values[pointed] || 0)}` : "";
  }

  // Every head of the layer, small; made anew when the weights lie over another side.
  function drawEvery(end, side, framed) {
    parts.small.hidden = parts.small.previousSibling.hidden = !side.grid || Look.alone(state.layer);
    if (parts.small.hidden) return;
    if (parts.over !== side) parts.every = makeEvery(side);
    parts.over = side;
    parts.every.forEach((one, place) => {
      const values = Look.values(state.layer, place), most = values ? percent(largest(side, values)) : "–";
      paint(one, {weights: values, framed});
      one.most.textContent = most;
      one.button.setAttribute("aria-label", `Head ${one.head}: its largest weight on a patch is ${most}`);
      one.button.setAttribute("aria-pressed", String(place === state.place));
    });
  }
  function makeEvery(side) {
    parts.small.replaceChildren();
    return Look.layer().heads.map((head, place) => {
      const button = element(parts.small, "button"), one = pane(button, side);
      button.addEventListener("click", () => Look.select(state.layer, place));
      element(button, "span", "", "head " + head);
      return Object.assign(one, {button, head, most: element(button, "span")});
    });
  }

  function redraw() {
    root.hidden = !grids(state.layer);
    if (root.hidden) return;
    if (built !== state.layer) build();
    built = state.layer;
    begin();
    draw();
  }
  Look.on(redraw);
})();
