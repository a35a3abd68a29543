"""How rows of tokens, verdicts and bars look: a part of the style."""

STRIP = """
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

VERDICT = """
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
