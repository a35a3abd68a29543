// A picture (or an empty grid) with a canvas over it: weights as a shade, the chosen patch in a frame, ranks as numbers.
"use strict";
Look.patches = (() => {
  const {element} = Look;
  let strength = 0.75;  // of the shade

  // Where a token stands on its grid: null where it is none of the patches.
  function spot(side, token) {
    const at = token === null ? -1 : token - side.extra;
    if (!side.grid || at < 0 || at >= side.grid[0] * side.grid[1]) return null;
    return {y: Math.floor(at / side.grid[1]), x: at % side.grid[1]};
  }
  function named(side, token) {
    const found = spot(side, token);
    return found ? `row ${found.y + 1}, column ${found.x + 1}` : side.shown[token];
  }
  const token = (side, {y, x}) => side.extra + y * side.grid[1] + x;

  function largest(side, weights) {
    let most = 0;
    const end = side.extra + side.grid[0] * side.grid[1];
    for (let at = side.extra; at < end; at++) if (weights[at] > most) most = weights[at];
    return most;
  }

  // Sizes are read when they change: to ask for them while drawing would lay out the page anew for every pane.
  const watch = new ResizeObserver(entries => {
    for (const {target, contentRect} of entries) Object.assign(panes.get(target), contentRect.toJSON()).draw();
  });
  const panes = new WeakMap();
  function pane(parent, side) {
    const box = element(parent, "div", "pane" + (side.picture ? "" : " bare"));
    box.style.setProperty("--ratio", side.grid[1] / side.grid[0]);
    const image = side.picture ? element(box, "img") : null;
    if (image) Object.assign(image, {src: side.picture, alt: "", draggable: false});
    const made = {side, box, image, canvas: element(box, "canvas"), width: 0, height: 0, draw: () => {}};
    panes.set(box, made);
    watch.observe(box);
    return made;
  }

  // The token of the patch under the pointer.
  function under({box, side}, event) {
    const place = box.getBoundingClientRect(), [rows, columns] = side.grid;
    const within = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    const y = within((event.clientY - place.top) / place.height, rows);
    return token(side, {y, x: within((event.clientX - place.left) / place.width, columns)});
  }

  // What is needed to draw on a pane: its pen, where a patch lies in it, the page's colours; null out of sight.
  function easel(one) {
    const scale = window.devicePixelRatio || 1, {canvas} = one, [rows, columns] = one.side.grid;
    const width = Math.round(one.width * scale), height = Math.round(one.height * scale);
    if (!width || !height) return null;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    const across = x => Math.round(x * width / columns), down = y => Math.round(y * height / rows);
    const place = ({y, x}) => [across(x), down(y), across(x + 1) - across(x), down(y + 1) - down(y)];
    const colour = name => tint(one.box, name);
    return {pen: canvas.getContext("2d"), scale, width, height, rows, columns, across, down, place, colour};
  }

  const tints = new Map();
  let scheme = null;
  function tint(box, name) {
    if (scheme !== Look.state.scheme) tints.clear();
    scheme = Look.state.scheme;
    const bare = box.classList.contains("bare") + name;
    if (!tints.has(bare)) tints.set(bare, getComputedStyle(box).getPropertyValue("--" + name).trim());
    return tints.get(bare);
  }

  // `weights` of all the side's tokens or null; `framed` is outlined, `pointed` with dashes; `ranks`: token -> number.
  function paint(one, what) {
    one.draw = () => drawn(one, what);
    one.draw();
  }
  function drawn(one, {weights = null, framed = null, pointed = null, ranks = new Map()}) {
    const made = easel(one);
    if (!made) return;
    made.pen.clearRect(0, 0, made.width, made.height);
    if (one.image) dim(one.image, weights ? strength : 0);
    if (weights) heat(made, one.side, weights);
    if (!weights || !one.image) net(made);
    for (const [key, rank] of ranks) badge(made, spot(one.side, key), String(rank));
    frame(made, spot(one.side, pointed), [3, 3]);
    frame(made, spot(one.side, framed), []);
  }

  // A dim grey picture: what is bright or has a colour is a weight.
  function dim(image, part) {
    const filter = part ? `grayscale(${part}) brightness(${1 - part / 2})` : "";
    if (image.dataset.filter !== filter) image.style.filter = image.dataset.filter = filter;
  }

  // One pixel a patch, enlarged, and then all of it in one colour.
  const small = document.createElement("canvas");
  function heat({pen, width, height, rows, columns, colour}, side, weights) {
    const most = largest(side, weights), pixels = new ImageData(columns, rows);
    for (let at = 0; at < rows * columns; at++) {
      pixels.data[4 * at + 3] = most ? Math.round(255 * strength * (weights[side.extra + at] || 0) / most) : 0;
    }
    Object.assign(small, {width: columns, height: rows}).getContext("2d").putImageData(pixels, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, 0, 0, width, height);
    pen.globalCompositeOperation = "source-in";
    pen.fillStyle = colour("over");
    pen.fillRect(0, 0, width, height);
    pen.globalCompositeOperation = "source-over";
  }

  function net({pen, rows, columns, across, down, width, height, colour}) {
    pen.fillStyle = colour("line");
    pen.globalAlpha = 0.6;
    for (let y = 1; y < rows; y++) pen.fillRect(0, down(y), width, 1);
    for (let x = 1; x < columns; x++) pen.fillRect(across(x), 0, 1, height);
    pen.globalAlpha = 1;
  }

  // Two strokes, dark on light: one of them stands out of any picture.
  function frame({pen, place, scale, width, height, colour}, found, dashes) {
    if (!found) return;
    const [left, top, wide, high] = place(found), edge = 2.5 * scale;
    const x = Math.max(left, edge), y = Math.max(top, edge);
    const right = Math.min(left + wide, width - edge), bottom = Math.min(top + high, height - edge);
    for (const [name, size, dash] of [["card", 5, []], ["ink", 2, dashes]]) {
      pen.strokeStyle = colour(name);
      pen.lineWidth = size * scale;
      pen.setLineDash(dash.map(length => length * scale));
      pen.strokeRect(x, y, right - x, bottom - y);
    }
    pen.setLineDash([]);
  }

  function badge({pen, place, scale, colour}, found, text) {
    const [left, top, wide, high] = place(found), x = left + wide / 2, y = top + high / 2;
    pen.beginPath();
    pen.arc(x, y, 8 * scale, 0, 2 * Math.PI);
    pen.fillStyle = colour("card");
    pen.fill();
    pen.lineWidth = scale;
    pen.strokeStyle = pen.fillStyle = colour("ink");
    pen.stroke();
    Object.assign(pen, {font: `600 ${11 * scale}px system-ui, sans-serif`, textAlign: "center", textBaseline: "middle"});
    pen.fillText(text, x, y + 0.5 * scale);
  }

  return {
    spot, named, token, largest, pane, under, paint,
    get strength() { return strength; },
    set strength(value) { strength = value; },
  };
})();
