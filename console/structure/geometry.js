// Curves between processes, and places on them. Pure functions.

/**
 * The curve of messages from one process to another, from edge to edge of their circles. It bends to the right of the
 * direction of travel, so that the two directions of a link lie apart.
 */
export function curve(from, to, radius, bend = 0.12) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const control = {x: (from.x + to.x) / 2 - dy * bend, y: (from.y + to.y) / 2 + dx * bend};
  return {from: towards(from, control, Math.min(radius, length / 2)), control, to: towards(to, control, Math.min(radius, length / 2))};
}

/** The point at `distance` from `from` in the direction of `to`. */
export function towards(from, to, distance) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return {x: from.x + ((to.x - from.x) * distance) / length, y: from.y + ((to.y - from.y) * distance) / length};
}

/** The point of a curve at `t` from 0 to 1. */
export function pointOn({from, control, to}, t) {
  const mix = (a, b, c) => (1 - t) ** 2 * a + 2 * (1 - t) * t * b + t ** 2 * c;
  return {x: mix(from.x, control.x, to.x), y: mix(from.y, control.y, to.y)};
}

export function path({from, control, to}) {
  return `M${round(from.x)} ${round(from.y)}Q${round(control.x)} ${round(control.y)} ${round(to.x)} ${round(to.y)}`;
}

/** Where `count` messages of one link stand: the oldest is the nearest to the receiver. */
export function spots(count) {
  if (count === 1) return [0.5];
  const first = 0.74;
  const last = 0.26;
  return Array.from({length: count}, (_, index) => first - ((first - last) * index) / (count - 1));
}

/** The first of some bends that keeps a curve away from the other processes and inside the box, or the best of them. */
export function freeBend(from, to, radius, {others, clearance, box, bends = [0.12, 0.24, -0.24, 0.36, -0.36, -0.12]}) {
  const outside = ({x, y}) => x < EDGE || y < EDGE || x > box.width - EDGE || y > box.height - EDGE;
  const isBad = (spot) => outside(spot) || others.some((other) => distance(spot, other) < clearance);
  const faults = (bend) => [0.2, 0.35, 0.5, 0.65, 0.8].filter((t) => isBad(pointOn(curve(from, to, radius, bend), t))).length;
  let best = {bend: bends[0], bad: Infinity};
  for (const bend of bends) {
    const bad = faults(bend);
    if (bad < best.bad) best = {bend, bad};
    if (bad === 0) break;
  }
  return best.bend;
}

/** A message has this much room around its middle. */
const EDGE = 15;

/** The place on the curve next to `t` that is free of the `taken` ones; `t` itself if none is. */
export function freeSpot(bow, t, taken, clearance) {
  for (const shift of [0, 0.08, -0.08, 0.16, -0.16, 0.24, -0.24]) {
    const spot = pointOn(bow, t + shift);
    if (t + shift > 0.12 && t + shift < 0.88 && taken.every((other) => distance(spot, other) >= clearance)) return spot;
  }
  return pointOn(bow, t);
}

export const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

export const round = (value) => Math.round(value * 10) / 10;
