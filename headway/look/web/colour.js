// Colours for canvases: from the card over the accent to the ink, so that lightness alone tells large from small, in
// light and in dark. Drawn anew when the reader's system changes its mind, and for paper.
"use strict";
Object.assign(Look, (() => {
  const pen = document.createElement("canvas").getContext("2d");
  const STEPS = 65536, ACCENT = 0.62;  // where between card and ink the accent lies
  let table = null;

  function colour(name) {
    pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return [1, 3, 5].map(at => parseInt(pen.fillStyle.slice(at, at + 2), 16));
  }
  const mixed = (one, two, part) => one.map((value, at) => value + (two[at] - value) * part);

  // A colour for each of many weights. The square root lets small ones be seen beside a large one.
  function shades() {
    if (table) return table;
    const card = colour("--card"), accent = colour("--accent"), end = mixed(accent, colour("--ink"), 0.8);
    table = new Uint32Array(STEPS);
    for (let step = 0; step < STEPS; step++) {
      const part = Math.sqrt(step / (STEPS - 1));
      const [red, green, blue] = part < ACCENT ? mixed(card, accent, part / ACCENT)
        : mixed(accent, end, (part - ACCENT) / (1 - ACCENT));
      table[step] = (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
    }
    return table;
  }

  // Numbers from 0 to `largest`, row by row, one pixel each; CSS makes the pixels large.
  function paint(canvas, values, width, largest) {
    const height = values.length / width, colours = shades(), scale = largest > 0 ? (STEPS - 1) / largest : 0;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    for (let at = 0; at < values.length; at++) pixels[at] = colours[values[at] * scale | 0];
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  function changed() {
    table = null;
    Look.set({scheme: Look.state.scheme + 1});
  }
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", changed);
  return {paint};
})());
