// What the model would say next, were it to end after each layer: the tokens in a row, and a table of the chosen one.
"use strict";
(() => {
  const root = document.getElementById("look-lens"), lens = Look.record.lens;
  if (!root) return;
  root.hidden = !lens || !lens.places.length || !lens.depths.length;
  if (root.hidden) return;
  const {element, percent} = Look, side = Look.record.sides[lens.side], last = lens.depths.length - 1;
  const WINDOW = 120;  // tokens in the row at a time: a long text would be thousands of boxes
  const LONGEST = 32;  // characters of a token that are shown
  const order = new Map(lens.places.map((place, at) => [place, at]));
  let at = lens.places.length - 1;  // which of the places is in sight
  let start = null;  // of the window

  // A token for the eye, as the page's other tokens are: blanks as signs, what has no picture by a sign or its number.
  const BLANKS = {" ": "␣", "\n": "↵", "\t": "⇥", "\x7f": "␡"};
  function sign(one) {
    const code = one.codePointAt(0);
    if (one in BLANKS) return BLANKS[one];
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    return /[\p{Cc}\p{Cs}]/u.test(one) ? "\ufffd" : "\\u" + code.toString(16).padStart(4, "0");
  }
  function legible(text) {
    const shown = text.replaceAll("\r\n", "\n").replace(/[ \p{C}\p{Zl}\p{Zp}]/gu, sign).replace(/^\p{M}/u, "◌$&");
    const signs = [...shown];
    return signs.length > LONGEST ? signs.slice(0, LONGEST - 1).join("") + "…" : shown || "∅";
  }

  const answer = place => lens.tokens[last][place][0];
  const decided = place => lens.tokens.findIndex(depth => depth[place][0] === answer(place));
  const brief = depth => lens.depths[depth].length <= 3 ? lens.depths[depth] : depth ? "end" : "0";

  // A text that is read both ways is filled in, one that is read forwards goes on.
  const forwards = Look.record.layers.some(layer => layer.queries === lens.side && layer.kind === "decoder");
  element(root, "h3", "", (forwards ? "Next" : "Likeliest") + " token, layer by layer");
  element(root, "p", "said", "Each depth is read by the model’s own last norm and head, as if the model ended there. "
    + lens.note);
  const caption = element(root, "p", "told");
  const row = element(root, "div", "places");
  const earlier = element(row, "button", "more", "← earlier");
  const strip = element(row, "ol");
  const later = element(row, "button", "more", "later →");
  element(root, "p", "said", "Under each token: the first depth that has the final answer on top; the later, "
    + "the stronger its colour (0 is the embedding). Choose a token to see its table.");
  const scroll = element(root, "div", "scroll"), table = element(scroll, "table");
  const first = element(element(table, "thead"), "tr"), body = element(table, "tbody");
  strip.dir = "ltr";
  strip.setAttribute("aria-label", "Tokens and the depth at which the final answer is first on top");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", "Likeliest tokens by depth");
  for (const title of ["Depth", ...lens.tokens[last][0].map((_, rank) => rank ? String(rank + 1) : "Likeliest")]) {
    element(first, "th", "", title).scope = "col";
  }

  // The token that is read, in a layer of the page whose tokens ask.
  function choose(place) {
    at = Math.max(0, Math.min(lens.places.length - 1, place));
    const fits = one => one.queries === lens.side && one.kind !== "channels";
    const layer = fits(Look.layer()) ? Look.state.layer : Look.record.layers.findIndex(fits);
    draw();
    if (layer < 0) return;
    Look.select(layer, Look.state.place);
    Look.set({row: lens.places[at], column: null, direction: "to", pinned: true});
  }

  function box(place) {
    const depth = decided(place), button = element(element(strip, "li"), "button");
    element(button, "span", "", side.shown[lens.places[place]]).dir = "auto";
    element(button, "small", "", brief(depth));
    button.style.setProperty("--heat", (last ? 50 * depth / last : 0).toFixed(1) + "%");
    button.title = `${lens.places[place]}: ${side.shown[lens.places[place]]} → ${legible(answer(place))}, `
      + `first on top at depth ${lens.depths[depth]} (${percent(lens.probabilities[depth][place][0])})`;
    button.dataset.place = place;
    button.tabIndex = -1;
  }

  function drawStrip() {
    const wanted = Math.floor(at / WINDOW) * WINDOW;
    if (wanted !== start) {
      start = wanted;
      strip.replaceChildren();
      for (let place = start; place < Math.min(start + WINDOW, lens.places.length); place++) box(place);
      earlier.hidden = start === 0;
      later.hidden = start + WINDOW >= lens.places.length;
    }
    mark(strip.querySelector("[aria-current]"), false);
    mark(strip.children[at - start].firstChild, true);
  }
  function mark(button, yes) {
    if (!button) return;
    button.tabIndex = yes ? 0 : -1;
    if (yes) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }

  // The cells are made once and written anew: a pointer on its way through the text asks for this every frame.
  const cells = lens.depths.map((name, depth) => {
    const line = element(body, "tr"), head = element(line, "th", "", name);
    head.scope = "row";
    if (depth === last) element(head, "small", "", "answer");
    return lens.tokens[depth][0].map(() => {
      const made = element(line, "td"), inside = element(made, "div", "guess");
      return {made, inside, token: element(inside, "span"), share: element(inside, "b")};
    });
  });
  for (const one of cells.flat()) one.token.dir = "auto";

  function drawTable() {
    const final = answer(at);
    cells.forEach((line, depth) => line.forEach(({made, inside, token, share}, rank) => {
      const text = lens.tokens[depth][at][rank], probability = lens.probabilities[depth][at][rank];
      token.textContent = legible(text);
      share.textContent = percent(probability);
      made.className = text === final ? "answer" : "";
      inside.title = text === final ? "the final answer" : "";
      inside.style.backgroundSize = `${(100 * probability).toFixed(1)}% 4px, 100% 4px`;
    }));
    const place = lens.places[at];
    caption.replaceChildren(forwards ? "After " : "At ", shown(side.shown[place]), ` (token ${place}) the model says `,
      shown(legible(final)), ` with ${percent(lens.probabilities[last][at][0])}. ` + when(decided(at)));
  }
  const shown = text => element(null, "bdi", "", text);
  const when = depth => depth === last ? "Only its last depth has this on top." : "This is first on top at depth "
    + lens.depths[depth] + ", and marked ✓ wherever it is among the likeliest.";

  let drawn = null;
  function draw() {
    if (drawn === at) return;
    drawn = at;
    drawStrip();
    drawTable();
  }

  const STEPS = {ArrowLeft: () => at - 1, ArrowRight: () => at + 1, Home: () => 0, End: () => lens.places.length - 1};
  strip.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (button) choose(Number(button.dataset.place));
  });
  strip.addEventListener("keydown", event => {
    if (!STEPS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();  // the page's own arrow keys would move it once more
    choose(STEPS[event.key]());
    strip.querySelector("[aria-current]").focus();
  });
  earlier.addEventListener("click", () => choose(start - 1));
  later.addEventListener("click", () => choose(start + WINDOW));
  Look.on(state => {
    const end = Look.chosen(), side = Look.layer()[end === "row" ? "queries" : "keys"];
    if (side === lens.side && order.has(state[end])) at = order.get(state[end]);
    draw();
  });
})();
