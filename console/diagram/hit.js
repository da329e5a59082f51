// What is under the pointer. Pure functions.

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
