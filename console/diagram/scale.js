// Horizontal positions, in pixels at zoom 1. Pure functions.

/** The usual distance between two neighbouring moments, and the least that a gap may get. */
export const GAP = 72;
const GAP_MIN = 5;
/** A gap that would be wider than the first becomes a break of the second width. */
const GAP_MAX = 4.5 * GAP;
const BREAK = 1.8 * GAP;
const COLUMN = 76;

/**
 * The positions of the times: in proportion to time, but a long gap in which nothing happens is drawn as a break, and two
 * moments never fall together. `times` ascend and differ. `delay` is the usual delay of a message: it gets at most two usual
 * distances, because otherwise in a busy group no message would fit on the page.
 */
export function timeScale(times, delay = 0) {
  const gaps = times.slice(1).map((t, at) => t - times[at]).sort((a, b) => a - b);
  // The usual gap; if gaps differ much, half of a long one, so that a run with many tiny gaps does not get endless.
  const quantile = (part) => gaps[Math.floor((gaps.length - 1) * part)];
  const usual = gaps.length ? Math.max(quantile(0.5), quantile(0.75) / 2, delay / 2) : 1;
  const xs = new Float64Array(times.length);
  const breaks = [];
  for (let at = 1; at < times.length; at += 1) {
    const gap = times[at] - times[at - 1];
    const isBreak = (gap / usual) * GAP > GAP_MAX;
    // A gap is at least visible: of two moments that are almost the same the later one still stands to the right.
    xs[at] = xs[at - 1] + (isBreak ? BREAK : Math.max(GAP_MIN, (gap / usual) * GAP));
    if (isBreak) breaks.push({from: xs[at - 1], to: xs[at], start: times[at - 1], end: times[at]});
  }
  return {xs, breaks, width: xs.length ? xs[xs.length - 1] : 0, at: (t) => interpolate(times, xs, t)};
}

/** The positions of columns. */
export function orderScale(columns) {
  return {breaks: [], width: Math.max(0, columns - 1) * COLUMN, at: (column) => column * COLUMN};
}

/** The position of `t` between the known times. */
function interpolate(times, xs, t) {
  if (times.length === 0) return 0;
  const next = firstAtLeast(times, t);
  if (next === 0) return xs[0];
  if (next === times.length) return xs[xs.length - 1];
  const part = (t - times[next - 1]) / (times[next] - times[next - 1]);
  return xs[next - 1] + part * (xs[next] - xs[next - 1]);
}

/** The index of the first of the ascending values that is at least `value`. */
export function firstAtLeast(values, value) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Every how many positions a label fits, if labels need `room` pixels and positions are `step` pixels apart. */
export function every(step, room) {
  if (!(step > 0)) return 1;
  const least = Math.max(1, room / step);
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((many) => many >= least - 1e-9);
}
