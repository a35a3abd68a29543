// Where heads attend: the share of one named view for each layer and head, as numbers on a shade.
"use strict";
(() => {
  const root = document.getElementById("look-roles");
  if (!root) return;
  const {record, element, percent} = Look;
  const heads = record.layers.flatMap((layer, at) => layer.measures.map((one, place) => ({
    layer: at, place, head: layer.heads[place], shares: one.views, chances: one.chance,
  })));
  const views = [...new Set(heads.flatMap(one => Object.keys(one.shares)))];
  if (!views.length) return;
  const SHADE = 50;  // percent of the accent: with more of it the numbers would be hard to read
  const tiles = new Map();  // "layer/place" -> {one, button}

  element(root, "h4", "", "Where heads attend");
  const chooser = element(element(root, "label", "", "View "), "select");
  for (const name of views) element(chooser, "option", "", name).value = name;
  const box = element(root, "div", "scroll fitting"), table = element(box, "table", "views");
  const told = element(root, "p", "said");

  function build() {
    const columns = [...new Set(heads.map(one => one.head))].sort((one, other) => one - other);
    const first = element(element(table, "thead"), "tr"), body = element(table, "tbody");
    for (const title of ["Layer", ...columns]) element(first, "th", "", String(title)).scope = "col";
    record.layers.forEach((layer, at) => {
      const row = element(body, "tr");
      element(row, "th", "", Look.layerName(at)).scope = "row";
      for (const head of columns) tile(element(row, "td"), at, layer.heads.indexOf(head));
    });
  }

  function tile(cell, layer, place) {
    if (place < 0) return;  // this layer has no such head, or does not hold it
    const button = element(cell, "button");
    const one = heads.find(found => found.layer === layer && found.place === place);
    button.addEventListener("click", () => Look.select(layer, place));
    tiles.set(layer + "/" + place, {one, button});
  }

  // Three digits at the most: 34, 3.4, 0.34.
  const brief = value => value === 0 ? "0" : value.toFixed(value < 0.995 ? 2 : value < 9.95 ? 1 : 0);

  function draw() {
    const view = chooser.value, largest = Math.max(...heads.map(one => one.shares[view] ?? 0));
    for (const {one, button} of tiles.values()) {
      const share = one.shares[view], known = share !== undefined, chance = one.chances[view];
      button.textContent = known ? brief(100 * share) : "–";
      button.title = `${Look.title(one.layer)}, head ${one.head}: `
        + (known ? `${percent(share)} ${view}` : "not measured")
        + (known && chance !== undefined ? `, ${percent(chance)} by chance` : "");
      button.setAttribute("aria-label", button.title);
      button.style.setProperty("--heat", (known && largest ? SHADE * share / largest : 0).toFixed(1) + "%");
    }
    told.textContent = `Percent of each head’s weight that goes to “${view}”: layers down, heads across. `
      + `The strongest colour is ${percent(largest)}.`;
  }

  function mark() {
    const chosen = Look.state.layer + "/" + Look.state.place;
    const stop = tiles.has(chosen) ? chosen : tiles.keys().next().value;
    for (const [name, {button}] of tiles) {
      button.tabIndex = name === stop ? 0 : -1;
      if (name === chosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  build();
  draw();
  chooser.addEventListener("change", draw);
  table.addEventListener("keydown", Look.rove);
  Look.on((_, names) => { if (names.has("layer") || names.has("place")) mark(); });
})();
