// The heads by what they do: a table to sort and to filter.
"use strict";
// What a table of layers and heads needs.
Object.assign(Look, (() => {
  const {record} = Look, several = new Set(record.layers.map(layer => layer.kind)).size > 1;
  const layerName = at => (several ? Look.TITLES[record.layers[at].kind] + " " : "") + record.layers[at].label;

  // Arrow keys go from button to button; the page's own would change the token as well.
  const WAYS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  function rove(event) {
    const button = event.target.closest("td button"), way = WAYS[event.key];
    if (!button || !way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const cell = button.closest("td"), row = cell.closest("tbody").rows[cell.parentElement.sectionRowIndex + way[0]];
    const next = row?.cells[cell.cellIndex + way[1]]?.querySelector("button");
    if (!next) return;
    button.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  return {layerName, rove};
})());

(() => {
  const root = document.getElementById("look-roles");
  if (!root) return;
  const {record, element, percent} = Look;
  const heads = record.layers.flatMap((layer, at) => layer.measures.map((one, place) => ({
    ...one, layer: at, place, head: layer.heads[place],
    share: one.views[one.role] ?? null, chance: one.chance[one.role] ?? null,
  })));
  root.hidden = !heads.length;
  if (root.hidden) return;
  const ROWS = 300;  // of the table at a time

  const fixed = digits => value => value.toFixed(digits);
  // Name, heading, how it is written, and what it means; numbers are sorted from the largest, the rest from the first.
  const COLUMNS = [
    ["layer", "Layer", Look.layerName, "in the order of running"],
    ["head", "Head", String, "its number in the layer"],
    ["role", "Role", String, "the view that stands out the most"],
    ["share", "Share", percent, "of the head’s weight that goes where its role says"],
    ["chance", "Chance", percent, "the same share if each row weighed all its keys alike"],
    ["entropy", "Entropy", fixed(2), "1: all keys alike, 0: one key only"],
    ["reach", "Reach", fixed(1), "how far away the weight is, in tokens or patches"],
    ["largest", "Largest", percent, "the largest weight of a row, on average"],
  ];
  const numeric = name => !["layer", "head", "role"].includes(name);
  const order = {name: "layer", down: false};
  let role = null, shownRows = ROWS;

  element(root, "h3", "", "Heads by role");
  const filters = element(root, "div", "filters");
  filters.setAttribute("role", "group");
  filters.setAttribute("aria-label", "Show the heads of one role");
  const scroll = element(root, "div", "scroll"), table = element(scroll, "table", "heads");
  const titles = element(element(table, "thead"), "tr"), body = element(table, "tbody");
  const more = element(root, "button", "more");
  const lines = new Map();  // "layer/place" -> its line in the table
  const key = one => one.layer + "/" + one.place;

  for (const [name, title, , meaning] of COLUMNS) {
    const head = element(titles, "th", numeric(name) ? "number" : ""), button = element(head, "button", "", title);
    head.scope = "col";
    head.dataset.name = name;
    button.title = meaning;
    button.addEventListener("click", () => {
      order.down = order.name === name ? !order.down : numeric(name);
      order.name = name;
      drawTable();
    });
  }

  function compared(one, other) {
    const [left, right] = [one[order.name], other[order.name]], none = (left === null) - (right === null);
    if (none || left === null) return none;  // what was not measured comes last, whichever way
    const sign = typeof left === "string" ? left.localeCompare(right) : left - right;
    return order.down ? -sign : sign;
  }

  function drawTable() {
    const found = heads.filter(one => role === null || one.role === role).sort(compared);
    const kept = found.slice(0, shownRows);
    body.replaceChildren();
    lines.clear();
    for (const one of kept) lines.set(key(one), line(one));
    more.hidden = kept.length === found.length;
    more.textContent = `Show all ${found.length.toLocaleString("en")} heads`;
    for (const head of titles.children) {
      const chosen = head.dataset.name === order.name;
      head.setAttribute("aria-sort", chosen ? (order.down ? "descending" : "ascending") : "none");
    }
    mark();
  }

  function line(one) {
    const made = element(body, "tr");
    made.dataset.layer = one.layer;
    made.dataset.place = one.place;
    for (const [name, , written] of COLUMNS) {
      const value = one[name], text = value === null ? "–" : written(value);
      const cell = element(made, "td", numeric(name) ? "number" : "", name === "head" ? undefined : text);
      if (name !== "head") continue;
      element(cell, "button", "", text).setAttribute("aria-label", `${Look.title(one.layer)}, head ${text}`);
    }
    return made;
  }

  function drawFilters() {
    const counts = new Map();
    for (const one of heads) counts.set(one.role, (counts.get(one.role) ?? 0) + 1);
    const sorted = [...counts].sort((one, other) => other[1] - one[1]);
    for (const [name, count] of [[null, heads.length], ...sorted]) {
      const button = element(filters, "button", "", (name ?? "all") + " ");
      element(button, "small", "", String(count));
      button.setAttribute("aria-pressed", String(name === role));
      button.addEventListener("click", () => {
        role = name;
        for (const other of filters.children) other.setAttribute("aria-pressed", String(other === button));
        drawTable();
      });
    }
  }

  function mark() {
    const chosen = key(Look.state), stop = lines.has(chosen) ? chosen : lines.keys().next().value;
    for (const [name, made] of lines) {
      made.querySelector("button").tabIndex = name === stop ? 0 : -1;
      current(made, name === chosen);
    }
  }
  const current = (made, yes) => yes ? made.setAttribute("aria-current", "true") : made.removeAttribute("aria-current");

  body.addEventListener("click", event => {
    const made = event.target.closest("tr");
    if (made) Look.select(Number(made.dataset.layer), Number(made.dataset.place));
  });
  body.addEventListener("keydown", Look.rove);
  more.addEventListener("click", () => { shownRows = Infinity; drawTable(); });
  drawFilters();
  element(root, "p", "said", COLUMNS.slice(2).map(([, title, , meaning]) => `${title}: ${meaning}`).join(". ") + ".");
  drawTable();
  Look.on((_, names) => { if (names.has("layer") || names.has("place")) mark(); });
})();
