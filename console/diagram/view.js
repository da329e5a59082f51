// Zoom and pan as arithmetic. A view is `{x, k}`: the position at the left edge and the pixels per position. Pure functions.

const ZOOM_MAX = 12;

/** A short run is not stretched beyond this. */
const FIT_MAX = 1.6;

/** The view that shows everything, in `width` pixels. */
export function fit(end, width, margin) {
  const k = Math.min(FIT_MAX, (width - 2 * margin) / Math.max(1, end));
  return {x: -margin / k, k};
}

/** The first view of a run: all of it if that is readable, otherwise its beginning. */
export function opening(end, width, margin, readable = 0.85) {
  const k = Math.max(fit(end, width, margin).k, readable);
  return {x: -margin / k, k};
}

/** The view zoomed by `factor`, so that what is under the pixel `at` stays there. */
export function zoom(view, factor, at, bounds) {
  const k = Math.min(ZOOM_MAX, Math.max(smallest(bounds), view.k * factor));
  return clamp({x: view.x + at / view.k - at / k, k}, bounds);
}

/** The view moved by pixels. */
export function pan(view, pixels, bounds) {
  return clamp({x: view.x + pixels / view.k, k: view.k}, bounds);
}

/** The view that shows the position `x`, moved only if it must. `room` is the distance to the edge, in pixels. */
export function reveal(view, x, bounds, room = 80) {
  const at = (x - view.x) * view.k;
  if (at < room) return clamp({x: x - (room / view.k), k: view.k}, bounds);
  if (at > bounds.width - room) return clamp({x: x - (bounds.width - room) / view.k, k: view.k}, bounds);
  return view;
}

/** The view kept within `bounds`: `{end, width, margin}`, margin and width in pixels. What is smaller than the window stays at its left. */
export function clamp({x, k}, {end, width, margin}) {
  const least = -margin / k;
  const most = Math.max(least, end + margin / k - width / k);
  return {x: Math.min(most, Math.max(least, x)), k};
}

function smallest({end, width, margin}) {
  return Math.min(1, (width - 2 * margin) / Math.max(1, end));
}

/** From position to pixel and back. */
export const toPixel = (view, x) => (x - view.x) * view.k;
export const toPosition = (view, pixel) => view.x + pixel / view.k;
