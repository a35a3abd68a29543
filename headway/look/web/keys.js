// Keys for everything: they count while the focus is in this part of the page, or nowhere.
"use strict";
(() => {
  const root = document.getElementById("heads") ?? document.body, {element, state, record} = Look;
  const turned = (at, step, all) => (at + step + all) % all;
  const head = step => Look.select(state.layer, turned(state.place, step, Look.layer().heads.length));
  const layer = step => Look.select(turned(state.layer, step, record.layers.length), state.place);

  const {NAMES} = Look, [thing] = Look.things(...record.sides);
  const KEYS = [
    [["ArrowLeft", "ArrowRight"], "← →", `the ${thing} before, the ${thing} after`, token],
    [["[", "]"], "[ ]", `the ${NAMES.head} before, the ${NAMES.head} after`, key => head(key === "[" ? -1 : 1)],
    [["{", "}"], "{ }", `the ${NAMES.layer} before, the ${NAMES.layer} after`, key => layer(key === "{" ? -1 : 1)],
    [["d"], "d", "turn around: attends to, is attended by", () => Look.turn()],
    [["c"], "c", `compare with a second ${NAMES.head}, and stop (in the overview: with the ${NAMES.head} in focus)`,
      Look.toggleCompare],
    [["Enter"], "Enter", `pin the ${thing} (in the overview: choose the ${NAMES.head})`, pin],
    [["Escape"], "Esc", "unpin, then stop comparing", escape],
    [["?"], "?", "this list", () => dialog.showModal()],
  ];
  function token(key) { Look.move(key === "ArrowLeft" ? -1 : 1); }
  function pin(_, event) {
    if (!event.target.closest(".look-token")) return false;
    Look.set({pinned: !state.pinned});
  }
  function escape() {
    if (state.pinned) Look.set({pinned: false});
    else Look.set({other: null});
  }

  const dialog = element(root, "dialog", "look-keys"), list = element(dialog, "dl");
  dialog.id = "look-keys";
  dialog.setAttribute("aria-label", "Keys");
  for (const [[key], signs, meaning] of KEYS) {
    if (Look.ruled && key === "[") continue;  // what has no layers is gone through by { and }
    element(list, "dt", "", signs);
    element(list, "dd", "", meaning);
  }
  const more = `Shift and a click in the overview choose the second ${NAMES.head}. A click on a ${thing} pins it.`;
  element(dialog, "p", "look-note", more);
  const close = element(dialog, "button", "", "Close");
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", event => event.target === dialog && dialog.close());
  document.getElementById("look-help")?.addEventListener("click", () => dialog.showModal());

  document.addEventListener("keydown", event => {
    const {target, key} = event, mine = target === document.body || root.contains(target);
    if (!mine || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (target.closest("input, select, textarea, [contenteditable]")) return;
    const found = KEYS.find(([keys]) => keys.includes(key));
    // Tables and buttons of other parts keep Enter and the arrows for themselves.
    if (found && found[3](key, event) !== false) event.preventDefault();
  });
})();
