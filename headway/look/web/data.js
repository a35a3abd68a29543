// The record of the page: tokens, layers, and the weights of any row of any head, computed when they are asked for.
"use strict";
const Look = (() => {
  const root = document.getElementById("look-data");
  const record = JSON.parse(root.textContent);
  const held = new Map();  // layer -> its arrays, unpacked at first use
  const rows = new Map();  // "layer/place/row" -> weights, the latest ones
  const KEPT = 4e6;  // numbers in them

  // Half precision by table: 65,536 numbers, made once.
  let halves = null;
  function half() {
    if (halves) return halves;
    halves = new Float32Array(65536);
    for (let bits = 0; bits < 65536; bits++) {
      const sign = bits & 0x8000 ? -1 : 1, power = (bits >> 10) & 31, part = bits & 1023;
      halves[bits] = sign * (power === 0 ? part * 2 ** -24 : power === 31 ? (part ? NaN : Infinity)
        : (1 + part / 1024) * 2 ** (power - 15));
    }
    return halves;
  }

  const KINDS = {uint8: Uint8Array, int16: Int16Array, float16: Uint16Array, float32: Float32Array};
  function array(packed) {
    if (packed === null || typeof packed !== "object") return packed;
    return {shape: packed.shape, values: new KINDS[packed.dtype](bytes(packed.base64).buffer)};
  }
  function bytes(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const text = atob(base64), found = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) found[at] = text.charCodeAt(at);
    return found;
  }

  function data(layer) {
    if (!held.has(layer)) {
      const block = document.getElementById("look-layer-" + layer);
      const packed = JSON.parse(block.textContent);
      held.set(layer, Object.fromEntries(Object.entries(packed).map(([name, value]) => [name, array(value)])));
    }
    return held.get(layer);
  }

  function fromWeights(found, place, row) {
    const [, count, keys] = found.values.shape, table = half();
    const start = (place * count + row) * keys, weights = new Float32Array(keys);
    for (let key = 0; key < keys; key++) weights[key] = table[found.values.values[start + key]];
    return weights;
  }

  function may(found, place, row, key) {
    if (found.causal) return key <= row + found.first;
    if (!found.allowed) return true;
    const [tables, count, bytes] = found.allowed.shape, table = tables > 1 ? place : 0;
    return (found.allowed.values[(table * count + row) * bytes + (key >> 3)] >> (7 - (key & 7))) & 1;
  }

  function query(found, place, row) {
    const [, count, width] = found.q.shape, q = new Float64Array(width);
    for (let channel = 0; channel < width; channel++) {
      q[channel] = found.q.values[(place * count + row) * width + channel] * found.step.values[place * width + channel];
    }
    return q;
  }

  function score(found, place, row, key, q) {
    const width = q.length, k = found.k.values, start = (place * found.k.shape[1] + key) * width;
    let value = 0;
    for (let channel = 0; channel < width; channel++) value += q[channel] * k[start + channel];
    if (found.softcap !== null) value = found.softcap * Math.tanh(value / found.softcap);
    if (found.bias) value += found.bias.values[place * found.bias.shape[1] + found.q.shape[1] - 1 - row + key];
    return value;
  }

  // log Σ exp(scores) of each row, NaN until the row was computed: with it, one column needs no whole rows.
  function sums(found, place) {
    found.sums ??= [];
    return found.sums[place] ??= new Float64Array(found.q.shape[1]).fill(NaN);
  }

  function fromFactors(found, place, row) {
    const keys = found.k.shape[1], q = query(found, place, row), weights = new Float32Array(keys);
    const scores = new Float64Array(keys).fill(-Infinity);
    let largest = -Infinity, total = 0;
    for (let key = 0; key < keys; key++) {
      if (!may(found, place, row, key)) continue;
      scores[key] = score(found, place, row, key, q);
      if (scores[key] > largest) largest = scores[key];
    }
    sums(found, place)[row] = Infinity;
    if (largest === -Infinity) return weights;
    for (let key = 0; key < keys; key++) total += scores[key] = Math.exp(scores[key] - largest);
    for (let key = 0; key < keys; key++) weights[key] = scores[key] / total;
    sums(found, place)[row] = largest + Math.log(total);
    return weights;
  }

  // The weights of one row: `place` counts the heads that are held, `row` is the number of the token that asks.
  // null where that row is not held. `keep`: it may be asked for again soon.
  function weights(layer, place, row, keep = true) {
    const [first, count] = record.layers[layer].rows;
    if (row < first || row >= first + count) return null;
    const name = layer + "/" + place + "/" + row;
    let found = rows.get(name);
    if (found) return found;
    const from = data(layer);
    found = (from.kind === "weights" ? fromWeights : fromFactors)(from, place, row - first);
    if (!keep) return found;
    if (rows.size * found.length >= KEPT) rows.delete(rows.keys().next().value);
    rows.set(name, found);
    return found;
  }

  return {record, weights, array, data, may, query, score, sums, half};
})();
