"""The style sheet and the script that every page carries.

The style follows the reader's light or dark setting, narrow and wide windows, and paper. The script adds the values
under the pointer to charts (mouse, touch, arrow keys), and opens all folded parts for printing.
"""

_LIGHT = """
--paper:#fbfbfa;--card:#fff;--ink:#1d2129;--soft:#5c6470;--line:#dfe2e6;--grid:#e9ebee;--accent:#1c5fd4;--wash:#eef3fc;
--good:#e9f6ee;--tone0:#1c5fd4;--tone1:#d4660a;--tone2:#14804f;--tone3:#b02a86;--tone4:#0b8299;--tone5:#8f6a00;
--tone6:#7a4fd0;--tone7:#c0392f;--shadow:0 1px 2px #10182814,0 6px 20px #1018280a;
"""

_DARK = """
--paper:#14171c;--card:#1b1f26;--ink:#e7eaee;--soft:#9aa4b2;--line:#303742;--grid:#272d36;--accent:#7fb0ff;--wash:#1f2a3d;
--good:#18301f;--tone0:#6aa5ff;--tone1:#ff9d4d;--tone2:#4cc38a;--tone3:#ee7cc8;--tone4:#4ccbe0;--tone5:#e0b93f;
--tone6:#b394ff;--tone7:#ff7b70;--shadow:none;
"""

_FRAME = """
*{box-sizing:border-box}
html{color-scheme:light dark;scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:62rem;padding:2.5rem 1.25rem 4rem;background:var(--paper);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:clamp(1.6rem,5vw,2.2rem);line-height:1.15;margin:0;letter-spacing:-.02em}
h2{font-size:1.2rem;margin:0 0 1rem;letter-spacing:-.01em}
p{margin:.5rem 0}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.subtitle{color:var(--soft);margin:.4rem 0 0;font-size:1.05rem}
nav ul{display:flex;flex-wrap:wrap;gap:.4rem;list-style:none;padding:0;margin:1.25rem 0 0}
nav a{display:block;padding:.2rem .75rem;border:1px solid var(--line);border-radius:99px;text-decoration:none;
 font-size:.875rem;color:var(--ink);background:var(--card)}
nav a:hover{border-color:var(--accent);color:var(--accent)}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.4rem;margin:1.25rem 0 0;
 box-shadow:var(--shadow);scroll-margin-top:1rem}
section>:last-child{margin-bottom:0}
pre,code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.875rem}
pre{margin:.6rem 0;padding:.9rem 1rem;background:var(--paper);border:1px solid var(--line);border-radius:8px;
 white-space:pre-wrap;max-height:32rem;overflow:auto;line-height:1.5;unicode-bidi:plaintext}
.sample b{color:var(--accent);font-weight:600}
"""

_PARTS = """
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(12rem,100%),1fr));gap:.75rem;margin:0}
.facts div{padding:.75rem .9rem;border:1px solid var(--line);border-radius:10px;background:var(--paper)}
.facts dt{color:var(--soft);font-size:.8rem}
.facts dd{margin:0;font-size:1.3rem;font-weight:600;line-height:1.3;letter-spacing:-.01em;
 font-variant-numeric:tabular-nums}
.facts .note{font-size:.8rem;font-weight:400;color:var(--soft);letter-spacing:0;margin-top:.15rem}
.scroll{overflow-x:auto;max-height:30rem;overflow-y:auto;border:1px solid var(--line);border-radius:8px;margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:start;color:var(--soft);font-size:.85rem;padding:.6rem .8rem}
th,td{padding:.4rem .8rem;text-align:start;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:normal}
thead th{position:sticky;top:0;background:var(--card);color:var(--soft);font-weight:600;white-space:nowrap;
 box-shadow:inset 0 -1px var(--line)}
tbody th{font-weight:500}
.number{text-align:end;white-space:nowrap}
tr.best th,tr.best td{background:var(--good);font-weight:600}
details>summary{cursor:pointer}
.folded{margin:.6rem 0}
.folded>summary{color:var(--soft);padding:.2rem 0}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr));gap:1.6rem 2rem}
.columns>div>:first-child{margin-top:0}
.columns>div{min-width:0}
.commands{margin:0}
.commands dt{color:var(--soft);font-size:.875rem}
.commands dd{margin:.25rem 0 .9rem}
.commands code{display:block;padding:.55rem .8rem;background:var(--paper);border:1px solid var(--line);
 border-radius:8px;user-select:all;-webkit-user-select:all;white-space:pre-wrap}
.tree{font-size:.9rem}
.tree ul{list-style:none;margin:0;padding:0 0 0 1.1rem;border-inline-start:1px solid var(--line)}
.tree>ul{padding:0;border:0}
.tree summary{list-style-position:outside;margin-inline-start:1.1rem}
.tree li>.line{margin-inline-start:1.1rem}
.tree .line{display:inline-flex;flex-wrap:wrap;gap:0 .8rem;align-items:baseline;padding:.18rem 0;
 width:calc(100% - 1.1rem);vertical-align:top}
.tree summary .line{width:100%}
.tree .name{font-weight:600}
.tree .note{color:var(--soft)}
.tree .value{margin-inline-start:auto;font-variant-numeric:tabular-nums}
.tree .bar{flex:0 0 5rem;height:.45rem;border-radius:9px;align-self:center;
 background:linear-gradient(to right,var(--tone0) var(--share),var(--grid) var(--share))}
"""

_CHART = """
.chart{margin:0 0 1.6rem}
.columns .chart,section>.chart:last-child{margin:0}
.chart figcaption{font-weight:600;margin-bottom:.4rem;display:flex;flex-wrap:wrap;gap:.2rem 1rem;
 justify-content:space-between}
.switch{font-weight:400;font-size:.85rem;color:var(--soft);cursor:pointer}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;list-style:none;margin:-.2rem 0 .6rem;padding:0;font-size:.85rem;
 color:var(--soft)}
.legend li::before{content:"";display:inline-block;width:1.1rem;height:0;border-top:3px solid var(--tone);
 border-radius:2px;vertical-align:middle;margin-inline-end:.4rem}
.legend .dashed::before{border-top-style:dashed}
.plot{display:grid;grid-template:17rem 2.4rem/calc(var(--gutter) + .9rem) 1fr;font-size:.78rem;color:var(--soft);
 font-variant-numeric:tabular-nums}
.plot.log,.chart:has(.switch :checked) .plot:not(.log){display:none}
.chart:has(.switch :checked) .plot.log{display:grid}
.y,.x,.field{position:relative}
.y span{position:absolute;right:.55rem;transform:translateY(50%);line-height:1;white-space:nowrap}
.x{grid-column:2}
.x span{position:absolute;top:.3rem;transform:translateX(-50%);line-height:1;white-space:nowrap}
.x .last{transform:translateX(-100%)}
.x em{position:absolute;right:0;top:1.25rem;font-style:normal;line-height:1}
.field{border-inline-start:1px solid var(--line);border-bottom:1px solid var(--line);touch-action:pan-y;
 cursor:crosshair}
.field svg{display:block;width:100%;height:100%;overflow:visible}
.field path{fill:none;vector-effect:non-scaling-stroke;stroke-linecap:round;stroke-linejoin:round}
.grid{stroke:var(--grid);stroke-width:1}
.curve{stroke:var(--tone);stroke-width:2}
.curve.faint{stroke-width:1;opacity:.35}
.curve.dashed{stroke-dasharray:6 5}
.dots{stroke:var(--tone);stroke-width:6.5}
.cursor,.point,.readout{position:absolute;visibility:hidden;pointer-events:none}
.live .cursor,.live .point,.live .readout{visibility:visible}
.cursor{top:0;bottom:0;border-inline-start:1px dashed var(--soft)}
.point{width:10px;height:10px;margin:0 0 -5px -5px;border-radius:50%;background:var(--tone);
 border:2px solid var(--card)}
.readout{top:.4rem;max-width:min(16rem,70%);padding:.45rem .65rem;background:var(--card);color:var(--ink);z-index:1;
 border:1px solid var(--line);border-radius:8px;box-shadow:0 4px 16px #0003;font-size:.8rem}
.readout div::before{content:"";display:inline-block;width:.55rem;height:.55rem;border-radius:50%;
 background:var(--tone);margin-inline-end:.4rem}
.readout strong{margin-inline-start:.5rem}
.readout small{margin-inline-start:.35rem;color:var(--soft)}
"""

_STRIP = """
.strip{margin:.9rem 0}
.strip figcaption{font-size:.9rem;color:var(--soft);margin-bottom:.35rem}
.strip ol{display:flex;flex-wrap:wrap;gap:.35rem .3rem;list-style:none;margin:0;padding:0}
.box{border:1px solid var(--line);border-radius:6px;background:var(--paper);color:var(--ink)}
.strip .box{display:flex;flex-direction:column;justify-content:space-between;min-width:2rem;max-width:100%;
 padding:.15rem .45rem;text-align:center;line-height:1.35}
.strip .box span{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.875rem}
.strip small{font-size:.7rem;color:var(--soft);white-space:nowrap;font-variant-numeric:tabular-nums}
.strip small b{color:var(--ink)}
.strip .gap{border-style:dotted}
.strip .gap span{color:var(--soft)}
.box.padding{border-style:dashed;background:transparent}
.strip .padding span{color:var(--soft)}
.box.hidden{background:repeating-linear-gradient(135deg,transparent 0 5px,var(--grid) 5px 8px)}
.box.broken{background:color-mix(in srgb,var(--tone7) var(--heat,40%),var(--card));border-color:var(--tone7)}
.strip .broken span,.strip .broken small{color:inherit}
.box.changed{border-color:var(--accent);box-shadow:inset 0 0 0 2px var(--accent)}
.box.segment{border-inline-start:4px double var(--tone4)}
.keys{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;list-style:none;margin:.4rem 0 .9rem;padding:0;font-size:.85rem;
 color:var(--soft)}
.keys .box{display:inline-block;min-width:1.6rem;text-align:center;margin-inline-end:.4rem;line-height:1.4}
"""

_VERDICT = """
h3{font-size:1.05rem;margin:1.6rem 0 .5rem;scroll-margin-top:1rem}
h4{font-size:.95rem;margin:1.2rem 0 .4rem}
.verdicts{list-style:none;margin:1rem 0;padding:0;border:1px solid var(--line);border-radius:8px}
.verdicts li{display:grid;grid-template-columns:8.5rem minmax(0,1fr) auto;gap:.1rem .9rem;align-items:baseline;
 padding:.5rem .8rem}
.verdicts li+li{border-top:1px solid var(--line)}
.verdicts .law{font-weight:600}
.verdicts .said{color:var(--soft);font-size:.9rem;grid-column:2}
.verdicts .figures{text-align:end;color:var(--soft);font-size:.85rem;font-variant-numeric:tabular-nums;grid-row:1;
 grid-column:3}
.pill{justify-self:start;padding:.05rem .6rem;border-radius:99px;font-size:.8rem;font-weight:600;white-space:nowrap;
 border:1px solid var(--tone,var(--line));color:var(--tone,var(--soft));
 background:color-mix(in srgb,var(--tone,var(--line)) 12%,var(--card))}
.pill.holds{--tone:var(--tone2)}
.pill.broken{--tone:var(--tone7)}
.pill.not-claimed{--tone:var(--tone5)}
.bars{list-style:none;margin:.4rem 0;padding:0;font-size:.85rem;font-variant-numeric:tabular-nums}
.bars li{display:grid;grid-template-columns:minmax(0,18rem) minmax(4rem,1fr) 4.5rem;gap:0 .8rem;align-items:center;
 padding:.12rem 0}
.bars .kind{color:var(--soft)}
.bars .track{height:.7rem;border-radius:3px;background:linear-gradient(var(--soft),var(--soft)) var(--limit,-9px) 0/1px
 100% no-repeat,linear-gradient(to right,var(--tone,var(--tone0)) var(--share),var(--grid) var(--share))}
.bars .after{--tone:var(--tone1)}
.bars .first{--tone:var(--tone7);font-weight:600}
.bars .value{text-align:end}
.bars .pill{--tone:var(--tone7);margin-inline-start:.4rem}
.scroll .bars{padding:.4rem .8rem}
"""

_TONES = "".join(f".tone{place}{{--tone:var(--tone{place})}}" for place in range(8))

_NARROW = """
@media (max-width:36rem){body{padding:1.4rem .75rem 3rem}section{padding:1rem .85rem;border-radius:10px}
.plot{grid-template-rows:13rem 2.4rem}.facts{grid-template-columns:1fr 1fr;gap:.5rem}.facts dd{font-size:1.1rem}
.x span:nth-child(even):not(:last-of-type){visibility:hidden}.tree .bar{display:none}
.verdicts li{grid-template-columns:minmax(0,1fr)}.verdicts .said,.verdicts .figures{grid-column:1;grid-row:auto;
text-align:start}.bars li{grid-template-columns:minmax(0,1fr) 4.5rem}.bars .track{grid-column:1/-1;grid-row:2}}
"""

_PAPER = """
@media print{body{max-width:none;padding:0;font-size:10.5pt}nav,.switch{display:none}
section{box-shadow:none;border:0;padding:0 0 1rem;margin:0}pre,.scroll{max-height:none;overflow:visible}
figure,.facts div,tr,pre{break-inside:avoid}h2{break-after:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""

STYLE = (
    f":root{{{_LIGHT}}}@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    f"{_FRAME}{_PARTS}{_CHART}{_STRIP}{_VERDICT}{_TONES}{_NARROW}{_PAPER}"
).replace("\n", "")

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
