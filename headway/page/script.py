"""The script of a page: the read-out of charts (pointer, finger, arrow keys), and all parts open on paper."""

SCRIPT = r"""
"use strict";
for (const figure of document.querySelectorAll("figure.chart[data-series]")) {
  const series = JSON.parse(figure.dataset.series).filter(one => one.x.length);
  const steps = [...new Set(series.flatMap(one => one.x))].sort((a, b) => a - b);
  for (const field of figure.querySelectorAll(".field")) readout(figure, field, series, steps);
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
}

function element(parent, name, kind, text) {
  const made = parent.appendChild(document.createElement(name));
  made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

function readout(figure, field, series, steps) {
  const [left, right, low, high] = ["left", "right", "low", "high"].map(name => Number(field.dataset[name]));
  const log = field.parentElement.classList.contains("log");
  const scale = log ? Math.log10 : value => value;
  const across = value => 100 * (value - left) / (right - left);
  const up = value => 100 * (scale(value) - scale(low)) / (scale(high) - scale(low));
  const line = element(field, "i", "cursor");
  const dots = series.map(one => element(field, "i", "point tone" + one.tone));
  const box = element(field, "div", "readout");
  box.setAttribute("role", "status");
  let here = -1;

  function show(index) {
    here = Math.min(Math.max(index, 0), steps.length - 1);
    const step = steps[here];
    box.replaceChildren();
    element(box, "b", "", figure.dataset.x + " " + step.toLocaleString("en"));
    series.forEach((one, place) => {
      const at = nearest(one.x, step);
      const row = element(box, "div", "tone" + one.tone);
      element(row, "span", "", one.name).dir = "auto";
      element(row, "strong", "", one.text[at]);
      if (one.x[at] !== step) element(row, "small", "", "at " + one.x[at].toLocaleString("en"));
      dots[place].style.left = across(one.x[at]) + "%";
      dots[place].style.bottom = up(one.y[at]) + "%";
    });
    line.style.left = across(step) + "%";
    box.style.left = box.style.right = "auto";
    if (across(step) > 50) box.style.right = "calc(" + (100 - across(step)) + "% + .8rem)";
    else box.style.left = "calc(" + across(step) + "% + .8rem)";
    field.classList.add("live");
  }
  function hide() { here = -1; field.classList.remove("live"); }
  function follow(event) {
    const area = field.getBoundingClientRect();
    show(nearest(steps, left + (event.clientX - area.left) / area.width * (right - left)));
  }
  const moves = {ArrowLeft: () => here - 1, ArrowRight: () => here + 1, Home: () => 0, End: () => steps.length - 1};
  field.addEventListener("pointermove", follow);
  field.addEventListener("pointerdown", follow);
  field.addEventListener("pointerleave", hide);
  field.addEventListener("blur", hide);
  field.addEventListener("keydown", event => {
    if (event.key === "Escape") hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]());
  });
}

addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) { part.open = true; part.dataset.shut = ""; }
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("details[data-shut]")) { part.open = false; delete part.dataset.shut; }
});
"""
