// Choosing: what a pointer, a click or a key means for the state, and the numbers that belong to what is chosen.
"use strict";
Object.assign(Look, (() => {
  const {state, set, record} = Look;
  const chosen = () => state.direction === "to" ? "row" : "column";
  const opposite = end => end === "row" ? "column" : "row";
  const towards = end => end === "row" ? "to" : "from";

  // The first and the last token that can be chosen at an end.
  function limits(end, layer = state.layer) {
    const [first, count] = record.layers[layer].rows;
    return end === "row" ? [first, first + count - 1] : [0, Look.keys(layer).tokens.length - 1];
  }
  const within = (end, at) => at >= limits(end)[0] && at <= limits(end)[1];

  // A pointer over a token: it is chosen, unless another one is pinned; then it is the other end of a line.
  function hover(end, at) {
    if (!within(end, at)) return;
    if (!state.pinned) set({[end]: at, [opposite(end)]: null, direction: towards(end)});
    else if (end !== chosen()) set({[end]: at});
  }
  function click(end, at) {
    if (!within(end, at)) return;
    if (state.pinned && end === chosen() && state[end] === at) set({pinned: false});
    else set({[end]: at, [opposite(end)]: null, direction: towards(end), pinned: true});
  }
  function move(step) {
    const end = chosen(), [first, last] = limits(end);
    const at = Math.min(Math.max((state[end] ?? first - Math.sign(step)) + step, first), last);
    set({[end]: at, [opposite(end)]: null});
  }
  // The token stays where both ends are the same text; else the choice begins anew.
  function turn(direction = state.direction === "to" ? "from" : "to") {
    const from = state[chosen()], end = direction === "to" ? "row" : "column";
    const same = Look.layer().queries === Look.layer().keys && from !== null && within(end, from);
    set({direction, [end]: same ? from : state[end] ?? usual(end), [opposite(end)]: null});
  }

  // The last token that stands for text: in a text that is read forwards it has seen the most.
  function usual(end = chosen(), layer = state.layer) {
    const side = end === "row" ? Look.queries(layer) : Look.keys(layer), [first, last] = limits(end, layer);
    for (let at = last; at >= first; at--) if (!side.special.includes(at)) return at;
    return last >= first ? last : null;
  }

  const alike = (one, two) => ["queries", "keys"].every(end => record.layers[one][end] === record.layers[two][end]);
  // Another head comes into sight; tokens of another text are chosen anew.
  function select(layer, place) {
    const changes = {layer, place: Math.min(place, record.layers[layer].heads.length - 1)};
    if (!alike(layer, state.layer)) Object.assign(changes, {row: usual("row", layer), column: null, pinned: false});
    if (!alike(layer, state.layer)) changes.direction = "to";
    if (state.other && !alike(layer, state.other.layer)) changes.other = null;
    set(changes);
  }
  function compare(layer, place) {
    if (!alike(layer, state.layer)) return false;
    set({other: {layer, place: Math.min(place, record.layers[layer].heads.length - 1)}});
    return true;
  }

  // The second head, if there is one that reads the same tokens.
  const beside = () => state.other && alike(state.other.layer, state.layer) ? state.other : null;
  function toggleCompare() {
    if (beside()) return set({other: null});
    const heads = Look.layer().heads.length;
    if (heads > 1) return compare(state.layer, (state.place + 1) % heads);
    const next = record.layers.findIndex((_, at) => at !== state.layer && alike(at, state.layer));
    if (next >= 0) compare(next, 0);
  }

  // The page opens at the head that stands out the most above chance: of a head that looks everywhere, or at the first
  // token for want of anything better, there is little to see.
  function telling() {
    const dull = ["broad", "mixed", "first"], best = {layer: 0, place: 0};
    let most = 0;
    record.layers.forEach(({measures}, layer) => measures.forEach(({role, views, chance}, place) => {
      const above = dull.includes(role) ? 0 : views[role] - chance[role];
      if (above > most) Object.assign(best, {layer, place}), most = above;
    }));
    return best;
  }

  let waiting = null;
  const PAUSE = 15;  // milliseconds until the next piece of a column
  // What the chosen token gives to each key, or gets from each query; null where nothing is chosen or held.
  function values(layer, place) {
    if (state.direction === "to") return state.row === null ? null : Look.weights(layer, place, state.row);
    if (state.column === null) return null;
    const found = Look.column(layer, place, state.column);
    if (!found.done) waiting ??= setTimeout(() => { waiting = null; set({read: state.read + 1}); }, PAUSE);
    return found.values;
  }
  // The largest weight of the chosen token; two heads beside each other share it, so that equal colours are equal.
  function peak() {
    const heads = [state, ...(beside() ? [beside()] : [])].map(({layer, place}) => values(layer, place) ?? []);
    return Math.max(0, ...heads.map(one => one[Look.top(one, 1)[0]] ?? 0));
  }
  const partial = () => state.direction === "from" && waiting !== null;
  // The weight between two tokens, or null.
  function between(layer, place, row, column) {
    const found = row === null || column === null ? null : Look.weights(layer, place, row);
    return found && column < found.length ? found[column] : null;
  }

  const several = new Set(record.layers.map(layer => layer.kind)).size > 1;
  const TITLES = {
    encoder: "Encoder", decoder: "Decoder", cross: "Cross-attention", channels: "Channels", pattern: "Pattern",
  };
  // A rule alone has a name of its own.
  function title(at) {
    const {kind, label} = record.layers[at];
    return kind === "pattern" ? label : (several ? TITLES[kind] + ", layer " : "Layer ") + label;
  }
  const ruled = record.layers.every(layer => layer.kind === "pattern");
  // What the parts of the page are called: a rule alone has neither layers nor heads.
  const NAMES = ruled ? {layer: "pattern", head: "pattern"} : {layer: "layer", head: "head"};
  const TOKEN = ["token", "tokens"], PLACE = ["position", "positions"], PATCH = ["patch", "patches"];
  const THINGS = {positions: PLACE, queries: PLACE, keys: PLACE, channels: ["channel", "channels"]};
  // What a side is made of, one and many; of several sides the word that fits all.
  function things(...sides) {
    const [first, ...others] = sides.map(side => side.grid ? PATCH : THINGS[side.name] ?? TOKEN);
    return others.every(one => one === first) ? first : TOKEN;
  }
  const headName = (at, place) => String(record.layers[at].heads[place]);
  const alone = at => record.layers[at].kind === "pattern" && record.layers[at].heads.length === 1;
  const named = (at, place) => alone(at) ? title(at) : title(at) + ", head " + headName(at, place);
  Object.assign(state, telling());
  state.row = usual("row");
  // A rule weighs all that it allows alike: each pair of a row has its line.
  const many = Math.max(...record.layers.map((_, at) => Look.keys(at).tokens.length));
  if (ruled) state.threshold = Math.min(Math.floor(100 / many) / 100, state.threshold);
  return {
    chosen, opposite, limits, hover, click, move, turn, select, compare, beside, toggleCompare, alike, values, partial,
    between, title, headName, named, alone, TITLES,
    ruled, NAMES, things, peak,
  };
})());
