// The whole run as a strip below the diagram, with a frame around the part that is shown. Drag the frame to move.

import {el} from '../lib/dom.js';
import {GUTTER} from './paint.js';

const HEIGHT = 40;

export function createOverview(actions) {
  const canvas = el('canvas', {class: 'diagram-overview', 'aria-hidden': 'true'});
  const context = canvas.getContext('2d');
  let picture = null;
  let end = 1;
  const moveTo = (event) => {
    const box = canvas.getBoundingClientRect();
    actions.to(((event.clientX - box.left - GUTTER) / Math.max(1, box.width - GUTTER)) * end);
  };
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    moveTo(event);
  });
  canvas.addEventListener('pointermove', (event) => canvas.hasPointerCapture(event.pointerId) && moveTo(event));

  function paint(state, ratio) {
    const copy = document.createElement('canvas');
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const pen = copy.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const {plan, colour} = state;
    const x = (position) => GUTTER + (position / end) * (state.width - GUTTER);
    const lane = (HEIGHT - 8) / plan.scene.processes.length;
    pen.fillStyle = colour.line;
    for (let at = 0; at < plan.scene.processes.length && lane >= 2; at += 1) pen.fillRect(GUTTER, 4 + lane * (at + 0.5), state.width - GUTTER, 0.5);
    for (const bar of plan.far.bars.at(end / (state.width - GUTTER)).items) {
      pen.fillStyle = colour[bar.item.kind] ?? colour.muted;
      pen.globalAlpha = bar.item.kind === 'waiting' ? 0.45 : 0.9;
      pen.fillRect(x(bar.x0), 4 + lane * bar.lane + lane * 0.2, Math.max(1, x(bar.x1) - x(bar.x0)), Math.max(1, lane * 0.6));
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colour.violation;
    for (const violation of plan.violations) pen.fillRect(x(violation.x) - 1, 0, 2, HEIGHT);
    return copy;
  }

  return {
    canvas,
    forget() {
      picture = null;
    },
    draw(state, bounds) {
      end = Math.max(1, state.plan.end);
      const shown = bounds.width / state.view.k;
      // If all of the run is in the window, the overview would repeat the diagram.
      canvas.hidden = shown >= end;
      if (canvas.hidden) return;
      const ratio = devicePixelRatio || 1;
      if (!picture || canvas.width !== Math.round(state.width * ratio)) {
        [canvas.width, canvas.height] = [Math.round(state.width * ratio), Math.round(HEIGHT * ratio)];
        picture = paint(state, ratio);
      }
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.drawImage(picture, 0, 0);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const x = (position) => GUTTER + Math.max(0, Math.min(1, position / end)) * (state.width - GUTTER);
      const [from, to] = [x(state.view.x), x(state.view.x + shown)];
      context.fillStyle = state.colour.surface;
      context.globalAlpha = 0.6;
      context.fillRect(GUTTER, 0, from - GUTTER, HEIGHT);
      context.fillRect(to, 0, state.width - to, HEIGHT);
      context.globalAlpha = 1;
      context.strokeStyle = state.colour.axis;
      context.strokeRect(from + 0.5, 0.5, Math.max(4, to - from - 1), HEIGHT - 1);
      if (state.seq !== null) {
        context.fillStyle = state.colour.accent;
        context.fillRect(x(state.plan.xOf(state.seq)) - 0.75, 0, 1.5, HEIGHT);
      }
    },
  };
}
