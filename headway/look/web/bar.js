// The bar above the heads: which way one looks, and in words what is seen now (read aloud to those who listen).
"use strict";
(() => {
  const root = document.getElementById("look-bar"), {element, percent, state} = Look;
  if (!root) return;
  const turns = element(root, "div", "look-turns"), DIRECTIONS = {to: "attends to", from: "is attended by"};
  turns.setAttribute("role", "group");
  turns.setAttribute("aria-label", "Direction");
  for (const [name, text] of Object.entries(DIRECTIONS)) {
    const made = element(turns, "button", "", text);
    Object.assign(made, {type: "button"}).dataset.direction = name;
    made.addEventListener("click", () => Look.turn(name));
  }
  const said = element(root, "p", "look-status");
  said.id = "look-status";
  said.setAttribute("role", "status");
  const help = element(root, "button", "look-help", "?");
  Object.assign(help, {type: "button", title: "Keys", id: "look-help"});
  help.setAttribute("aria-label", "Keys");

  const TIED = 1e-6;
  const quoted = text => element(null, "bdi", "look-word", text);
  const strong = text => element(null, "b", "", text);

  // `first` of them: tokens before the patches are none.
  function many(count, side, first) {
    const [, name] = first < side.extra ? ["token", "tokens"] : Look.things(side);
    return `${count.toLocaleString("en")} ${name} alike, each`;
  }

  function sentence() {
    const {layer, place, row, column, direction} = state, to = direction === "to", at = state[Look.chosen()];
    if (at === null) return [`Point at a ${Look.things(Look.queries(), Look.keys())[0]}, or press → to begin.`];
    const asks = Look.queries().shown, answers = Look.keys().shown, weight = Look.between(layer, place, row, column);
    if (weight !== null) return [quoted(asks[row]), " → ", quoted(answers[column]), " ", strong(percent(weight))];
    const values = Look.values(layer, place), token = quoted((to ? asks : answers)[at]);
    if (!values) return ["The weights of ", token, " were not kept."];
    const [best] = Look.top(values, 1);
    if (best === undefined) return [token, to ? " attends to nothing." : " is attended by nobody."];
    const alike = values.filter(value => values[best] - value < TIED * values[best]).length;
    const others = to ? Look.keys() : Look.queries();
    const other = alike > 1 ? many(alike, others, best) : quoted(others.shown[best]);
    const most = to ? " attends most to " : " is attended most by ";
    return [token, most, other, " ", strong(percent(values[best])), Look.partial() ? " (still reading)" : ""];
  }

  Look.on(() => {
    for (const made of turns.children) made.setAttribute("aria-pressed", made.dataset.direction === state.direction);
    said.replaceChildren(...sentence());
    if (state.pinned) element(said, "span", "look-pin", "pinned");
  });
})();
