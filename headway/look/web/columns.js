// One column of a head: what each row gives to one key. Of factors this needs the sum of every row, which takes a while
// for a long text: it is read in pieces, and whoever asks again gets more of it.
"use strict";
Object.assign(Look, (() => {
  const found = new Map();  // "layer/place/key" -> {values, next}: rows before `next` are there
  const KEPT = 64, PATIENCE = 12;  // columns; milliseconds of work, which several parts ask for together

  // {values, done}: as many numbers as tokens that ask, NaN where a row is not held or not read yet.
  function column(layer, place, key) {
    const name = layer + "/" + place + "/" + key, [first, count] = Look.record.layers[layer].rows;
    if (!found.has(name)) {
      if (found.size >= KEPT) found.delete(found.keys().next().value);
      found.set(name, {values: new Float32Array(Look.queries(layer).tokens.length).fill(NaN), next: 0, again: 0});
    }
    const one = found.get(name), from = Look.data(layer), end = performance.now() + PATIENCE;
    const weight = from.kind === "weights" ? held : computed;
    if (end < one.again) return {values: one.values, done: false};
    while (one.next < count && (one.next % 16 || performance.now() < end)) {
      one.values[first + one.next] = weight(from, place, one.next, key, layer);
      one.next++;
    }
    one.again = performance.now() + PATIENCE;
    return {values: one.values, done: one.next >= count};
  }

  function held(from, place, row, key) {
    const [, count, keys] = from.values.shape;
    return Look.half()[from.values.values[(place * count + row) * keys + key]];
  }

  function computed(from, place, row, key, layer) {
    if (!Look.may(from, place, row, key)) return 0;
    const sums = Look.sums(from, place);
    if (Number.isNaN(sums[row])) Look.weights(layer, place, row + Look.record.layers[layer].rows[0], false);
    return Math.exp(Look.score(from, place, row, key, Look.query(from, place, row)) - sums[row]);
  }

  // The places of the largest numbers, the largest first.
  function top(values, count) {
    const best = [];
    for (let at = 0; at < values.length; at++) {
      if (!(values[at] > 0) || (best.length === count && values[at] <= values[best[count - 1]])) continue;
      let place = best.length;
      while (place > 0 && values[best[place - 1]] < values[at]) place--;
      best.splice(place, 0, at);
      if (best.length > count) best.pop();
    }
    return best;
  }

  return {column, top};
})());
