// From one drawing to the next. A drawing is a list of items with keys and numbers; the numbers move, the rest changes at
// once. Pure functions, and one that calls them for each frame.

/** The numbers of an item that move. */
const MOVING = ['x', 'y', 'x2', 'y2', 'opacity'];
export const DURATION_MS = 320;

/**
 * The drawing at `f` from 0 to 1 between two drawings. A new item comes from its `source` or fades in; an item that is
 * gone moves to its `target` or fades out, and carries `leaving: true`.
 */
export function between(before, after, f) {
  if (f >= 1) return after;
  const old = new Map(before.map((item) => [item.key, item]));
  const kept = new Set(after.map((item) => item.key));
  const shown = after.map((item) => {
    const start = old.get(item.key) ?? {...item, ...(item.source ?? {}), opacity: item.source ? 1 : 0};
    return move(start, item, f);
  });
  const leaving = before
    .filter((item) => !kept.has(item.key))
    .map((item) => ({...move(item, {...item, ...(item.target ?? {}), opacity: item.target ? 1 : 0}, f), leaving: true}));
  return [...leaving, ...shown];
}

function move(from, to, f) {
  const item = {...to};
  for (const name of MOVING) {
    if (to[name] === undefined) continue;
    const start = from[name] ?? to[name];
    item[name] = start + (to[name] - start) * f;
  }
  return item;
}

/** Slow at both ends. */
export const ease = (f) => (f < 0.5 ? 2 * f * f : 1 - 2 * (1 - f) ** 2);

/**
 * Shows the frames between two drawings, of a movement that began at `start`. Without motion only the last one is shown.
 * Returns a function that ends the movement where it is.
 */
export function play(
  before,
  after,
  show,
  {
    still,
    duration = DURATION_MS,
    now = () => performance.now(),
    start = now(),
    frame = globalThis.requestAnimationFrame,
    cancel = globalThis.cancelAnimationFrame,
  } = {},
) {
  if (still || before.length === 0) {
    show(after);
    return () => {};
  }
  let ticket = 0;
  const tick = () => {
    const f = Math.min(1, (now() - start) / duration);
    show(between(before, after, ease(f)));
    if (f < 1) ticket = frame(tick);
  };
  tick();
  return () => cancel(ticket);
}
