// The chosen token's largest weights as numbers, and what the rest adds up to; of two heads both, and the difference.
"use strict";
(() => {
  const root = document.getElementById("look-numbers"), {element, state} = Look;
  if (!root) return;
  const ROWS = 8;
  const table = element(element(root, "div", "look-table"), "table"), caption = element(table, "caption");
  const head = element(element(table, "thead"), "tr"), body = element(table, "tbody");
  table.id = "look-largest";

  const sum = (values, but) => values.reduce((all, value, at) => but.has(at) || !(value > 0) ? all : all + value, 0);
  const sign = value => Math.abs(value) < 0.0001 ? "" : value > 0 ? "+" : "−";
  const signed = value => sign(value) + Look.percent(Math.abs(value));

  function titles(heads, to) {
    const weights = heads.length > 1 ? [...heads.map(one => Look.named(...one)), "difference"] : ["weight"];
    table.classList.toggle("two", heads.length > 1);
    head.replaceChildren();
    element(head, "th", "", to ? "attends to" : "is attended by");
    for (const text of ["at", ...weights]) element(head, "th", "number", text);
    for (const made of head.children) made.scope = "col";
  }
  function line(token, at, weights) {
    const made = element(body, "tr"), first = element(made, "th");
    first.scope = "row";
    element(first, "bdi", "", token);
    element(made, "td", "number", at === null ? "" : String(at));
    for (const weight of weights) {
      const cell = element(made, "td", "number");
      element(cell, "i").style.setProperty("--share", 100 * Math.min(weight, 1) + "%");
      element(cell, "span", "", Look.percent(weight));
    }
    if (weights.length > 1) element(made, "td", "number", signed(weights[1] - weights[0]));
    return made;
  }
  function token(side, values, at) {
    const made = line(side.shown[at], at, values.map(one => one[at] || 0));
    made.dataset.at = at;
    made.classList.toggle("other", at === state[Look.opposite(Look.chosen())]);
    made.addEventListener("click", () => Look.set({[Look.opposite(Look.chosen())]: at}));
  }

  function said(side, at) {
    if (at === null) return void (caption.textContent = `No ${Look.things(side)[0]} is chosen.`);
    caption.replaceChildren("The largest weights of ", element(null, "bdi", "", side.shown[at]), ` (${at})`);
  }

  Look.on(() => {
    const {layer, place, direction} = state, other = Look.beside(), to = direction === "to";
    const heads = [[layer, place], ...(other ? [[other.layer, other.place]] : [])];
    const values = heads.map(one => Look.values(...one));
    const asking = to ? Look.queries() : Look.keys(), answering = to ? Look.keys() : Look.queries();
    body.replaceChildren();
    titles(heads, to);
    said(asking, state[Look.chosen()]);
    if (values.some(one => !one)) return;
    const [one, two = one] = values, largest = one.map((value, key) => Math.max(value || 0, two[key] || 0));
    const best = Look.top(largest, ROWS), shown = new Set(best);
    for (const key of best) token(answering, values, key);
    const rest = answering.tokens.length - best.length;
    if (rest < 1) return;
    line(rest.toLocaleString("en") + " others, together", null, values.map(one => sum(one, shown))).className = "rest";
  });
})();
