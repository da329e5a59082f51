// What is under the pointer. Pure functions.

import {firstAtLeast} from './scale.js';

/** The distance from a point to a segment. */
export function distance(px, py, x0, y0, x1, y1) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  const part = length === 0 ? 0 : Math.min(1, Math.max(0, ((px - x0) * dx + (py - y0) * dy) / length));
  return Math.hypot(px - x0 - part * dx, py - y0 - part * dy);
}

/**
 * The nearest thing within `reach` pixels of the point: a mark, else an arrow, else a bar; `{type, placed}` or null.
 * `toX` and `toY` turn positions and lanes into pixels; `at` turns a pixel into a position.
 */
export function hit(plan, {px, py, toX, toY, at, reach = 7, barHeight = 14}) {
  const [left, right] = [at(px - reach), at(px + reach)];
  let best = null;
  const offer = (type, placed, far) => {
    if (far <= reach && (!best || far < best.far)) best = {type, placed, far};
  };
  plan.marks.visible(left, right, (mark) => {
    if (mark.lane !== null) offer('mark', mark, Math.hypot(px - toX(mark.x), py - toY(mark.lane)));
  });
  if (best) return best;
  plan.arrows.visible(left, right, (arrow) => {
    offer('arrow', arrow, distance(px, py, toX(arrow.tail), toY(arrow.from), toX(arrow.head), toY(arrow.to)));
  });
  if (best && best.far <= 3) return best;
  plan.bars.visible(left, right, (bar) => {
    if (Math.abs(py - toY(bar.lane)) <= barHeight / 2 && !best) best = {type: 'bar', placed: bar, far: 4};
  });
  return best;
}

/**
 * The record that a click chooses: that of a mark, or of the nearer end of an arrow. A bar lasts, so a click on it means the event
 * nearest to the point, as a click beside everything does. Null if there are no events. `pointer` is as in `hit`.
 */
export function seqAt(plan, pointer) {
  const over = hit(plan, pointer);
  if (over?.type === 'mark') return over.placed.seq;
  if (over?.type === 'arrow') {
    const {placed} = over;
    const isNearHead = Math.abs(pointer.px - pointer.toX(placed.head)) < Math.abs(pointer.px - pointer.toX(placed.tail));
    return isNearHead && Number.isFinite(placed.last) ? placed.last : placed.seq;
  }
  return nearest(plan, pointer);
}

/** The event nearest to the point, by time first and by process second; of equal ones the last. */
export function nearest({events, xs, byX, laneOf}, {px, py, toX, toY, at}) {
  let best = null;
  let least = Infinity;
  // False if the event is too far at the side, so that all beyond it are too.
  const offer = (index) => {
    const aside = Math.abs(toX(xs[index]) - px);
    if (aside > least) return false;
    const {seq, process} = events[index];
    const lane = laneOf(process);
    const far = aside + (lane === null ? 0 : 0.05 * Math.abs(toY(lane) - py));
    if (far < least || (far === least && seq > best)) [best, least] = [seq, far];
    return true;
  };
  const middle = firstAtLeast(byX.xs, at(px));
  for (let right = middle; right < byX.order.length && offer(byX.order[right]); right += 1);
  for (let left = middle - 1; left >= 0 && offer(byX.order[left]); left -= 1);
  return best;
}
