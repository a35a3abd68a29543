// One head large, or two beside each other: which they are, what was measured of them, and the parts that draw them.
"use strict";
(() => {
  const root = document.getElementById("look-panes"), {element, state, record} = Look;
  if (!root) return;
  const first = () => ({layer: state.layer, place: state.place});
  const second = () => Look.beside() ?? first();
  const panes = [pane("first", first, Look.select), pane("second", second, Look.compare)];

  function pane(kind, head, choose) {
    const made = element(root, "article", "look-pane " + kind);
    made.dataset.pane = kind;
    const draws = [chooser(made, kind, head, choose), facts(made, head), Look.text(made, head)];
    const pictures = element(made, "div", "look-pictures");
    draws.push(Look.lines(pictures, head), Look.map(pictures, head));
    return {made, draw: names => draws.forEach(draw => draw(names))};
  }

  function chooser(parent, kind, head, choose) {
    const bar = element(parent, "div", "look-chooser"), layers = element(bar, "select"), heads = element(bar, "select");
    layers.setAttribute("aria-label", Look.ruled ? "Pattern" : "Layer");
    heads.setAttribute("aria-label", "Head");
    if (kind === "first") compareButton(bar);
    else button(bar, "look-close", "Close", () => Look.set({other: null}));
    layers.addEventListener("change", () => choose(Number(layers.value), head().place));
    heads.addEventListener("change", () => choose(head().layer, Number(heads.value)));
    return names => {
      if (!["layer", "place", "other"].some(name => names.has(name))) return;
      const {layer, place} = head();
      heads.hidden = Look.alone(layer);
      const all = record.layers.map((_, at) => at).filter(at => kind === "first" || Look.alike(at, state.layer));
      options(layers, all.map(at => [at, Look.title(at)]), layer);
      options(heads, record.layers[layer].heads.map((_, at) => [at, "Head " + Look.headName(layer, at)]), place);
    };
  }
  function options(select, wanted, chosen) {
    const now = wanted.map(one => one.join(":")).join();
    if (select.dataset.now !== now) {
      select.dataset.now = now;
      select.replaceChildren();
      for (const [value, text] of wanted) element(select, "option", "", text).value = value;
    }
    select.value = chosen;
  }
  function button(parent, id, text, act) {
    const made = element(parent, "button", "", text);
    Object.assign(made, {id, type: "button"});
    made.addEventListener("click", act);
    return made;
  }
  function compareButton(bar) {
    const made = button(bar, "look-compare", "Compare", Look.toggleCompare);
    Look.on(() => {
      made.hidden = record.layers.length === 1 && record.layers[0].heads.length === 1;
      made.setAttribute("aria-pressed", Boolean(Look.beside()));
    });
  }

  const FACTS = [
    ["role", one => one.role, Look.ruled ? "how many pairs the rule allows" : "the view that stands out the most"],
    ["entropy", one => one.entropy.toFixed(2), "1: all keys alike, 0: one key only"],
    ["reach", one => one.reach === null ? null : one.reach.toFixed(1), "how far away the weight lies, in "],
    ["largest", one => Look.percent(one.largest), "the largest weight of a row, on average"],
  ];
  function facts(parent, head) {
    const list = element(parent, "dl", "look-facts");
    return names => {
      if (!["layer", "place", "other"].some(name => names.has(name))) return;
      const {layer, place} = head(), one = record.layers[layer].measures[place];
      list.replaceChildren();
      for (const [name, text, meaning] of [...FACTS, ["mechanism", () => record.layers[layer].mechanism, ""]]) {
        if (text(one) === null) continue;
        const made = element(list, "div");
        made.title = meaning + (name === "reach" ? Look.things(Look.queries(layer))[1] : "");
        element(made, "dt", "", name === "role" && record.layers[layer].kind === "pattern" ? "allows" : name);
        element(made, "dd", "", text(one)).dataset.fact = name;
      }
    };
  }

  Look.on((_, names) => {
    const both = Boolean(Look.beside());
    root.classList.toggle("both", both);
    panes[1].made.hidden = !both;
    panes[0].draw(names);
    if (both) panes[1].draw(names);
  });
})();
