// Pointer, wheel and keys on the canvas.

import {GUTTER} from './paint.js';

const PAN = 90;
const ZOOM = 1.35;
/** A pointer that moved less than this many pixels has clicked. */
const CLICK = 4;

/** Connects the canvas with the actions of the diagram. Returns a function that disconnects it. */
export function listen(canvas, actions) {
  const pointers = new Map();
  let moved = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  };

  const handlers = {
    pointerdown(event) {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) moved = 0;
    },
    pointermove(event) {
      const point = at(event);
      const before = pointers.get(event.pointerId);
      if (!before) return actions.pointAt(point.x, point.y);
      const [dx, dy] = [point.x - before.x, point.y - before.y];
      if (pointers.size === 2) pinch(event.pointerId, before, point);
      else if ((moved += Math.hypot(dx, dy)) >= CLICK) actions.pan(-dx, event.pointerType === 'touch' ? 0 : -dy);
      return pointers.set(event.pointerId, point);
    },
    pointerup(event) {
      const point = at(event);
      if (pointers.delete(event.pointerId) && moved < CLICK && pointers.size === 0) actions.clickAt(point.x, point.y);
    },
    pointercancel(event) {
      pointers.delete(event.pointerId);
    },
    pointerleave() {
      actions.leave();
    },
    blur() {
      actions.leave();
    },
    wheel(event) {
      // The page scrolls until the reader has clicked the diagram; a wheel sideways always moves the diagram.
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (!sideways && document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (sideways) actions.pan(event.deltaX || event.deltaY);
      else actions.zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY)) / 400), at(event).x - GUTTER);
    },
    keydown(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const act = keys[event.shiftKey ? `shift ${event.key}` : event.key] ?? keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    },
  };
  const keys = {
    ArrowLeft: () => actions.pan(-PAN), ArrowRight: () => actions.pan(PAN),
    ArrowUp: () => actions.pan(0, -PAN / 2), ArrowDown: () => actions.pan(0, PAN / 2),
    'shift ArrowLeft': () => actions.step(-1), 'shift ArrowRight': () => actions.step(1),
    ',': () => actions.step(-1), '.': () => actions.step(1), ' ': () => actions.play(),
    PageUp: () => actions.step(-10), PageDown: () => actions.step(10), Home: () => actions.first(), End: () => actions.last(),
    '+': () => actions.zoom(ZOOM), '=': () => actions.zoom(ZOOM), '-': () => actions.zoom(1 / ZOOM), 0: () => actions.fit(), Escape: () => actions.whole(),
  };

  function pinch(id, before, point) {
    const other = [...pointers].find(([key]) => key !== id)[1];
    const far = (a) => Math.hypot(a.x - other.x, a.y - other.y) || 1;
    moved = CLICK;
    actions.zoom(far(point) / far(before), (point.x + other.x) / 2 - GUTTER);
  }

  for (const [event, handler] of Object.entries(handlers)) canvas.addEventListener(event, handler, {passive: false});
  return () => {
    for (const [event, handler] of Object.entries(handlers)) canvas.removeEventListener(event, handler);
  };
}
