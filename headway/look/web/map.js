// One head as a map: rows ask, columns answer. It is drawn a few rows a frame; of a long text several share a pixel,
// and the largest of them is seen.
"use strict";
Look.map = (() => {
  const {element, state, record} = Look;
  const PIXELS = 640, ROWS = 1920, NAMED = 26;  // rows that are read, tokens beside it
  const within = (part, all) => Math.min(Math.max(Math.floor(part * all), 0), all - 1);
  const PATIENCE = 10, PAUSE = 120;  // milliseconds of a frame, and between two pictures

  // The maps in sight, one or two, share the scale of their colours.
  const jobs = [];
  function refresh() {
    const seen = jobs.slice(0, Look.beside() ? 2 : 1), largest = Math.max(...seen.map(job => job.largest));
    for (const job of seen) if (job.painted !== largest) job.paint(largest);
  }

  return (parent, head) => {
    const at = jobs.push({largest: 0, paint: () => {}}) - 1;
    const figure = element(parent, "figure", "look-map"), caption = element(figure, "figcaption");
    element(caption, "span", "", "Map");
    const scale = element(caption, "span", "look-scale");
    const field = element(figure, "div", "look-square");
    const top = element(field, "ol", "above"), left = element(field, "ol", "aside");
    const frame = element(field, "div", "look-frame"), canvas = element(frame, "canvas");
    const cross = {down: element(frame, "i", "down"), across: element(frame, "i", "across")};
    const readout = element(figure, "p", "look-readout");
    frame.tabIndex = 0;
    frame.setAttribute("role", "img");
    for (const one of [top, left]) one.setAttribute("aria-hidden", "true");
    listen(frame, head);
    let drawn = "";

    return names => {
      const {layer, place} = head(), name = layer + "/" + place;
      if (drawn !== name) {
        drawn = name;
        jobs[at].stop = true;
        prepare(field, frame, top, left, layer);
        frame.setAttribute("aria-label", `Map of ${Look.named(layer, place)}; arrow keys walk through it`);
        jobs[at] = read(canvas, layer, place, largest => legend(scale, layer, largest));
        jobs[at].go();
      } else if (names.has("scheme")) jobs[at].painted = null;
      refresh();
      aim(cross, layer);
      tell(readout, layer, place);
    };
  };

  function prepare(field, frame, top, left, layer) {
    const [first, count] = record.layers[layer].rows, asks = Look.queries(layer), answers = Look.keys(layer);
    const named = Math.max(count, answers.tokens.length) <= NAMED && !asks.grid && !answers.grid;
    field.classList.toggle("named", named);
    axis(left, named ? asks.shown.slice(first, first + count) : []);
    axis(top, named ? answers.shown : []);
    frame.style.aspectRatio = Math.min(Math.max(answers.tokens.length / count, 0.5), 2.5);
  }
  function axis(list, texts) {
    list.replaceChildren();
    for (const text of texts) element(element(list, "li"), "span", "", text).dir = "auto";
  }

  // Rows in turn until the frame's time is over, then the picture, then on; `told` is the largest weight of its scale.
  function read(canvas, layer, place, told) {
    const [first, count] = record.layers[layer].rows, keys = Look.keys(layer).tokens.length;
    const step = Math.ceil(count / ROWS), width = Math.min(keys, PIXELS);
    const height = Math.min(Math.ceil(count / step), PIXELS);
    const pooled = new Float32Array(height * width);
    const job = {stop: false, largest: 0, painted: null, go: some, paint};
    let row = 0, next = 0;
    function paint(largest) {
      job.painted = largest;
      Look.paint(canvas, pooled, width, largest);
      told(largest);
    }
    function pool(weights, start) {
      for (let key = 0; key < keys; key++) {
        const at = start + Math.floor(key * width / keys);
        if (weights[key] > pooled[at]) pooled[at] = weights[key];
        if (weights[key] > job.largest) job.largest = weights[key];
      }
    }
    function some() {
      if (job.stop) return;
      const end = performance.now() + PATIENCE;
      for (; row < count && performance.now() < end; row += step) {
        pool(Look.weights(layer, place, first + row, false), Math.floor(row * height / count) * width);
      }
      if (row < count) requestAnimationFrame(some);
      if (row < count && end < next) return;
      next = end + PAUSE;
      job.painted = null;
      refresh();
      canvas.dataset.read = Math.min(row, count);
    }
    return job;
  }

  function legend(scale, layer, largest) {
    const step = Math.ceil(record.layers[layer].rows[1] / ROWS);
    scale.replaceChildren();
    element(scale, "span", "", "0");
    element(scale, "i");
    element(scale, "span", "", Look.percent(largest));
    if (step > 1) element(scale, "span", "", `(one row of ${step})`);
  }

  function aim(cross, layer) {
    const [first, count] = record.layers[layer].rows, keys = Look.keys(layer).tokens.length;
    for (const [line, at, all, from, size] of [
      [cross.across, state.row === null ? null : state.row - first, count, "top", "height"],
      [cross.down, state.column, keys, "left", "width"],
    ]) {
      line.hidden = at === null || at < 0 || at >= all;
      line.style[from] = 100 * at / all + "%";
      line.style[size] = `max(3px, ${100 / all}%)`;
    }
  }
  function tell(readout, layer, place) {
    const weight = Look.between(layer, place, state.row, state.column);
    readout.replaceChildren();
    if (weight === null) return void (readout.textContent = "Point at a cell to read its number.");
    element(readout, "bdi", "", Look.queries(layer).shown[state.row]);
    readout.append(" → ");
    element(readout, "bdi", "", Look.keys(layer).shown[state.column]);
    readout.append(" ");
    element(readout, "b", "", Look.percent(weight));
  }

  function cell(frame, layer, event) {
    const area = frame.getBoundingClientRect(), [first, count] = record.layers[layer].rows;
    return {
      row: first + within((event.clientY - area.top) / area.height, count),
      column: within((event.clientX - area.left) / area.width, Look.keys(layer).tokens.length),
    };
  }
  function listen(frame, head) {
    frame.addEventListener("pointermove", event => {
      const found = cell(frame, head().layer, event);
      if (!state.pinned) Look.set(found);
      else Look.set({[Look.opposite(Look.chosen())]: found[Look.opposite(Look.chosen())]});
    });
    frame.addEventListener("click", event => Look.set({...cell(frame, head().layer, event), pinned: true}));
    const STEPS = {ArrowUp: ["row", -1], ArrowDown: ["row", 1], ArrowLeft: ["column", -1], ArrowRight: ["column", 1]};
    frame.addEventListener("keydown", event => {
      if (!(event.key in STEPS)) return;
      const [end, step] = STEPS[event.key], [first, last] = Look.limits(end);
      Look.set({[end]: Math.min(Math.max((state[end] ?? first - step) + step, first), last), pinned: true});
      event.preventDefault();
    });
  }
})();
