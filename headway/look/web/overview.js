// Every layer and head as a small map: a grid to point at, click, and walk through with the arrow keys.
"use strict";
(() => {
  const root = document.getElementById("look-overview"), {record, element, state} = Look;
  if (!root) return;
  const cells = new Map();  // "layer/place" -> its cell
  const key = (layer, place) => layer + "/" + place;
  let shown = "map", focused = key(state.layer, state.place);

  const roles = [...new Set(record.layers.flatMap(layer => layer.measures.map(one => one.role)))].sort();
  // Three letters, or the first of each word.
  const code = role => role.includes(" ") ? role.split(" ").map(word => word[0]).join("") : role.slice(0, 3);
  const reaches = record.layers.flatMap(layer => layer.measures.map(one => one.reach ?? 0));
  const SHOWN = {
    map: {title: "maps", text: () => "", part: () => 0},
    entropy: {title: "entropy", text: one => one.entropy.toFixed(2), part: one => one.entropy},
    reach: {title: "reach", text: one => one.reach === null ? "–" : one.reach.toFixed(one.reach < 9.95 ? 1 : 0),
      part: one => (one.reach ?? 0) / Math.max(...reaches, 1e-9)},
    role: {title: "role", text: one => code(one.role), part: () => 0},
  };
  const LEGENDS = {
    map: "Rows ask, columns answer. Each map is in shades of its own largest weight.",
    entropy: "1: a row weighs all its keys alike. 0: one key has everything.",
    reach: `How far away the weight lies, in ${Look.things(...record.sides)[1]}, on average.`,
  };

  function described(layer, place) {
    const one = record.layers[layer].measures[place];
    const reach = one.reach === null ? "" : ", reach " + one.reach.toFixed(1);
    return `${Look.named(layer, place)}: ${one.role}, entropy ${one.entropy.toFixed(2)}${reach}`;
  }

  const bar = element(root, "div", "look-tools");
  const label = element(bar, "label", "", "Show "), select = element(label, "select");
  select.id = "look-show";
  root.hidden = reaches.length < 2;
  root.parentElement.classList.toggle("alone", root.hidden);
  if (Look.ruled) delete SHOWN.role;
  for (const [name, one] of Object.entries(SHOWN)) element(select, "option", "", one.title).value = name;
  const box = element(root, "div", "look-grids");
  const hint = element(root, "p", "look-hint");
  hint.id = "look-hint";
  const legend = element(root, "p", "look-legend");

  const frame = document.getElementById("look");
  frame.style.setProperty("--columns", Math.max(...record.layers.map(layer => layer.heads.length)));
  const longest = Math.max(...record.layers.map(layer => layer.label.length));
  frame.style.setProperty("--label", Math.min(0.9 + 0.5 * longest, 8) + "rem");
  frame.style.setProperty("--rows", record.layers.length + new Set(record.layers.map(layer => layer.kind)).size / 2);
  function grid(kind, layers) {
    const several = record.layers.some(layer => layer.kind !== kind);
    if (several) element(box, "h3", "", Look.TITLES[kind]);
    const made = element(box, "div", "look-grid");
    made.setAttribute("role", "grid");
    made.setAttribute("aria-label", Look.ruled ? "Patterns" : Look.TITLES[kind] + ": layers and heads");
    numbers(made, layers.map(at => record.layers[at].heads));
    for (const at of layers) row(made, at);
  }
  // Above the columns, where all layers hold the same heads.
  function numbers(parent, heads) {
    if (new Set(heads.map(String)).size > 1 || (heads[0].length === 1 && Look.alone(0))) return;
    const made = element(parent, "div", "look-row numbers");
    made.setAttribute("role", "row");
    for (const text of ["", ...heads[0]]) element(made, "span", "", text).setAttribute("role", "columnheader");
  }
  function row(parent, at) {
    const made = element(parent, "div", "look-row"), name = element(made, "span", "", record.layers[at].label);
    made.setAttribute("role", "row");
    name.setAttribute("role", "rowheader");
    name.title = Look.title(at) + ": " + record.layers[at].name;
    record.layers[at].heads.forEach((_, place) => cell(made, at, place));
  }
  function cell(parent, at, place) {
    const made = element(parent, "div", "look-cell"), one = record.layers[at].measures[place];
    made.setAttribute("role", "gridcell");
    made.setAttribute("aria-label", described(at, place));
    Object.assign(made.dataset, {layer: at, place});
    element(made, "canvas").setAttribute("aria-hidden", "true");
    element(made, "b");
    made.style.setProperty("--tone", `var(--tone${roles.indexOf(one.role) % 8})`);
    cells.set(key(at, place), made);
  }

  function draw() {
    for (const made of cells.values()) {
      const {layer, place} = made.dataset, one = record.layers[layer].measures[place];
      if (shown === "map") small(made.querySelector("canvas"), layer, Number(place));
      made.querySelector("b").textContent = SHOWN[shown].text(one);
      made.style.setProperty("--weight", SHOWN[shown].part(one).toFixed(3));
    }
    root.dataset.shown = shown;
    legend.textContent = LEGENDS[shown] ?? "";
    if (shown === "role") for (const role of roles) element(legend, "span", "", code(role) + " = " + role);
  }
  const maps = new Map();
  function small(canvas, layer, place) {
    if (!maps.has(layer)) maps.set(layer, Look.array(record.layers[layer].maps));
    const {shape: [, height, width], values} = maps.get(layer);
    Look.paint(canvas, values.subarray(place * height * width, (place + 1) * height * width), width, 255);
  }

  function mark() {
    const {other} = state, now = key(state.layer, state.place), beside = other && key(other.layer, other.place);
    if (!root.contains(document.activeElement)) focused = now;
    for (const [name, made] of cells) {
      made.classList.toggle("chosen", name === now);
      made.classList.toggle("beside", name === beside);
      made.setAttribute("aria-selected", name === now || name === beside);
      made.tabIndex = name === focused ? 0 : -1;
    }
    hint.textContent = described(state.layer, state.place);
  }

  const found = event => event.target.closest(".look-cell");
  function choose(made, second) {
    const {layer, place} = made.dataset;
    focused = key(layer, place);
    if (!second) return Look.select(Number(layer), Number(place));
    if (Look.compare(Number(layer), Number(place))) return;
    hint.textContent = `It reads other ${Look.things(...record.sides)[1]}: the two cannot be compared.`;
  }
  box.addEventListener("click", event => found(event) && choose(found(event), event.shiftKey));
  for (const kind of ["pointerover", "focusin"]) box.addEventListener(kind, event => {
    const made = found(event);
    if (made) hint.textContent = made.getAttribute("aria-label");
  });
  box.addEventListener("pointerleave", () => hint.textContent = described(state.layer, state.place));

  const STEPS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  box.addEventListener("keydown", event => {
    const made = found(event);
    if (!made) return;
    if (event.key === "Enter" || event.key === " ") choose(made, event.shiftKey);
    else if (event.key === "c") choose(made, true);
    else if (event.key in STEPS) walk(made, ...STEPS[event.key]);
    else return;
    event.preventDefault();
  });
  function walk(made, down, across) {
    const layer = Number(made.dataset.layer) + down, place = Number(made.dataset.place) + across;
    const last = record.layers[layer] ? record.layers[layer].heads.length - 1 : 0;
    const next = cells.get(key(layer, down ? Math.min(place, last) : place));
    if (!next) return;
    focused = key(next.dataset.layer, next.dataset.place);
    for (const one of cells.values()) one.tabIndex = one === next ? 0 : -1;
    next.focus();
  }

  // The head that the page opens at may lie below what the box shows.
  function reveal(made) {
    const area = box.getBoundingClientRect(), place = made.getBoundingClientRect();
    if (place.bottom > area.bottom) box.scrollTop = place.top - area.top - area.height / 2;
    if (place.right > area.right) box.scrollLeft = place.left - area.left - area.width / 2;
  }

  for (const kind of Object.keys(Look.TITLES)) {
    const layers = record.layers.flatMap((layer, at) => layer.kind === kind ? [at] : []);
    if (layers.length) grid(kind, layers);
  }
  Look.fading(box);
  reveal(cells.get(focused));
  select.addEventListener("change", () => { shown = select.value; draw(); });
  Look.on((_, names) => {
    if (names.has("scheme")) draw();
    if (names.has("layer") || names.has("place") || names.has("other")) mark();
  });
})();
