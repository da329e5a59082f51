// The drawing of a group: processes on their structure, messages on their way, pointers, token, voting sets.

import {el, fill, svg} from '../lib/dom.js';
import {createPainter} from './draw.js';
import {legend, model} from './model.js';
import {DURATION_MS, play} from './tween.js';

const nothing = () => {};

/**
 * `onMessage(id)`: a message was clicked. `onProcess(id)`: a process was clicked. `onPoint(id | null)`: the pointer is on a message.
 * Without them the drawing is to look at only.
 */
export function createStructure({onMessage = nothing, onProcess = nothing, onPoint = nothing} = {}) {
  const layer = svg('g');
  const picture = svg('svg', {class: 'structure', role: 'img'}, layer);
  const signs = el('ul', {class: 'legend'});
  const frame = el('div', {class: 'structure-frame'}, picture);
  const paint = createPainter(layer);
  const motion = matchMedia('(prefers-reduced-motion: reduce)');
  let last = null;
  /** What is on the screen now, also in the middle of a movement. */
  let shown = [];
  let stop = () => {};
  let movement = {before: [], start: 0};

  function redraw(moving) {
    if (!last) return;
    const width = frame.clientWidth;
    const height = frame.clientHeight;
    if (width === 0 || height === 0) return;
    picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const items = model(last.state, {width, height}, last.view);
    stop();
    const now = performance.now();
    // A change of the choice during a movement does not begin the movement anew.
    if (moving) movement = {before: shown, start: now};
    else if (now >= movement.start + DURATION_MS) movement.before = [];
    const paintFrame = (frameItems) => {
      shown = frameItems.filter((item) => !item.leaving);
      paint(frameItems);
    };
    stop = play(movement.before, items, paintFrame, {start: movement.start, still: motion.matches || document.hidden});
    fill(
      signs,
      legend(items).map(({sign, text}) => el('li', {}, el('span', {class: `sign sign-${sign}`, 'aria-hidden': 'true'}), text)),
    );
  }

  const observer = new ResizeObserver(() => redraw(false));
  observer.observe(frame);

  const target = (event, name) => {
    const found = event.target.closest?.(`[data-${name}]`)?.dataset[name];
    return found === undefined ? null : Number(found);
  };
  picture.addEventListener('click', (event) => {
    const message = target(event, 'message');
    const process = target(event, 'process');
    if (message !== null) onMessage(message);
    else onProcess(process);
  });
  picture.addEventListener('pointerover', (event) => event.pointerType === 'mouse' && onPoint(target(event, 'message')));
  picture.addEventListener('pointerleave', () => onPoint(null));

  return {
    element: el('div', {class: 'structure-box'}, frame, signs),
    /** `moving`: whether this is a step, which is shown as a movement. */
    show(state, view, moving) {
      last = {state, view};
      picture.setAttribute('aria-label', summary(state));
      redraw(moving);
    },
    destroy() {
      stop();
      observer.disconnect();
    },
  };
}

function summary({structure, processes, pending}) {
  const inside = processes.filter((process) => process.inside).map(({id}) => `P${id}`);
  const waiting = processes.filter((process) => process.waiting).map(({id}) => `P${id}`);
  const words = [
    `${processes.length} processes, drawn as a ${structure.shape}`,
    inside.length > 0 && `inside: ${inside.join(', ')}`,
    waiting.length > 0 && `waiting: ${waiting.join(', ')}`,
    `${pending.length} messages in flight`,
  ];
  return `${words.filter(Boolean).join('; ')}. The lists beside the drawing say the same.`;
}
