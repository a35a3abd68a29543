// What the reader has chosen, and who wants to know: every part of the page draws itself anew when it changes.
"use strict";
Object.assign(Look, (() => {
  // `layer` and `place` (a head, counted among those held) are in sight; `other` is a second one, {layer, place}, or
  // null. `row` asks and `column` answers: tokens under the pointer or chosen, null where none is. `pinned`: chosen by
  // a click. `direction`: "to", what the row attends to, or "from", who attends to the column. `threshold`: of lines
  // that are drawn. `scheme` counts changes of light and dark, `read` the pieces of a column that have come.
  const state = {
    layer: 0, place: 0, other: null, row: null, column: null, pinned: false, direction: "to", threshold: 0.05,
    scheme: 0, read: 0,
  };
  const listeners = [];
  let waiting = null;

  // Parts are told once a frame, however often the pointer moves: fn(state, names of what changed).
  function set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (JSON.stringify(state[name]) === JSON.stringify(value)) continue;
      state[name] = value;
      waiting ??= new Set();
      waiting.add(name);
    }
    if (waiting && !set.asked) {
      set.asked = true;
      requestAnimationFrame(tell);
    }
  }
  function tell() {
    set.asked = false;
    const names = waiting;
    waiting = null;
    for (const listener of listeners) listener(state, names);
  }
  function on(listener) {
    listeners.push(listener);
    listener(state, new Set(Object.keys(state)));
  }

  const layer = () => Look.record.layers[state.layer];
  const queries = (at = state.layer) => Look.record.sides[Look.record.layers[at].queries];
  const keys = (at = state.layer) => Look.record.sides[Look.record.layers[at].keys];
  return {state, set, on, layer, queries, keys};
})());

// A number for the eye: 34.2 %, 0.53 %, < 0.01 %.
Look.percent = value => value === 0 ? "0 %" : value < 0.0001 ? "< 0.01 %"
  : value < 0.01 ? (100 * value).toFixed(2) + " %" : (100 * value).toFixed(1) + " %";

// A box that can be scrolled says so: it fades where there is more of it.
Look.fading = box => {
  function look() {
    box.classList.toggle("more-above", box.scrollTop > 2);
    box.classList.toggle("more-below", box.scrollHeight - box.scrollTop - box.clientHeight > 2);
  }
  const watch = new ResizeObserver(look);
  for (const one of [box, ...box.children]) watch.observe(one);
  box.addEventListener("scroll", look, {passive: true});
};

// An element with a class and text; text never becomes HTML.
Look.element = (parent, name, kind = "", text = undefined) => {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
};
