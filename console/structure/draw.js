// Draws the items of `model.js` as SVG. Elements are kept from drawing to drawing; during a movement only places change.

import {svg} from '../lib/dom.js';
import {round} from './geometry.js';

/**
 * What changes on an element that stays: its place, and whether it is chosen. All else is the look of an item, and a new look
 * makes a new element. The choice follows the pointer, and an element that is replaced under the pointer loses the click.
 */
const KEPT = new Set(['x', 'y', 'x2', 'y2', 'opacity', 'source', 'target', 'chosen', 'hinted']);

export function createPainter(root) {
  const known = new Map();
  return function paint(items) {
    const kept = new Set();
    const elements = items.map((item) => {
      kept.add(item.key);
      const look = JSON.stringify(item, (name, value) => (KEPT.has(name) ? undefined : value));
      let entry = known.get(item.key);
      if (entry?.look !== look) {
        entry = {look, element: BUILD[item.type](item)};
        entry.element.dataset.key = item.key;
        known.set(item.key, entry);
      }
      (MOVE[item.type] ?? keep)(entry.element, item);
      entry.element.setAttribute('opacity', round(item.opacity * 10) / 10);
      entry.element.classList.toggle('st-chosen', Boolean(item.chosen));
      entry.element.classList.toggle('st-hinted', Boolean(item.hinted));
      return entry.element;
    });
    for (const key of known.keys()) if (!kept.has(key)) known.delete(key);
    let at = root.firstChild;
    for (const element of elements) {
      if (element === at) at = at.nextSibling;
      else root.insertBefore(element, at);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };
}

const keep = () => {};
const shift = (element, {x, y}) => element.setAttribute('transform', `translate(${round(x)} ${round(y)})`);

function straight(element, {x, y, x2, y2, bend = 0}) {
  const control = {x: (x + x2) / 2 - (y2 - y) * bend, y: (y + y2) / 2 + (x2 - x) * bend};
  element.firstChild.setAttribute('d', `M${round(x)} ${round(y)}Q${round(control.x)} ${round(control.y)} ${round(x2)} ${round(y2)}`);
  const head = element.children[1];
  if (!head) return;
  const angle = (Math.atan2(y2 - control.y, x2 - control.x) * 180) / Math.PI;
  head.setAttribute('transform', `translate(${round(x2)} ${round(y2)}) rotate(${round(angle)})`);
}

const MOVE = {edge: straight, pointer: straight, asked: straight, node: shift, message: shift, token: shift};

const HEAD = 'M4 0L-5 -4.5L-3 0L-5 4.5Z';

const BUILD = {
  edge: ({directed}) => svg('g', {class: 'st-edge'}, svg('path'), directed && svg('path', {class: 'st-head', d: HEAD})),
  line: ({d}) => svg('path', {class: 'st-edge', d}),
  set: ({d, series, radius, line, text}) =>
    svg('path', {class: `st-set st-series-${series}`, d, 'stroke-width': line ? 12 : radius * 2.5}, svg('title', {}, text)),
  pointer: ({name, main}) =>
    svg('g', {class: main ? 'st-pointer st-main' : 'st-pointer', data: {name}}, svg('path'), svg('path', {class: 'st-head', d: HEAD})),
  asked: ({answered}) => svg('g', {class: answered ? 'st-asked st-given' : 'st-asked'}, svg('path')),
  link: ({d, faint, end, angle}) =>
    svg(
      'g',
      {class: faint ? 'st-link st-faint' : 'st-link'},
      svg('path', {d}),
      svg('path', {class: 'st-head', d: HEAD, transform: `translate(${round(end.x)} ${round(end.y)}) rotate(${round(angle)}) scale(.8)`}),
    ),
  node,
  message,
  token,
};

function node({id, radius, mood, helper, leads, paused, selected, caption, queue, beside, suspectedBy}) {
  const classes = ['st-node', `st-${mood}`, helper && 'st-helper', selected && 'st-selected', paused && 'st-paused'];
  const shape = (grow, more) =>
    helper
      ? svg('rect', {
          x: -radius - grow,
          y: -radius * 0.82 - grow,
          width: 2 * (radius + grow),
          height: 2 * (radius * 0.82 + grow),
          rx: 6 + grow / 2,
          ...more,
        })
      : svg('circle', {r: radius + grow, ...more});
  const title = [
    `P${id}${helper ? ', helper' : ''}: ${caption || mood}`,
    paused && 'paused',
    suspectedBy.length > 0 && `suspected by ${suspectedBy.map((by) => `P${by}`).join(', ')}`,
  ];
  return svg(
    'g',
    {class: classes.filter(Boolean).join(' '), data: {process: id}},
    svg('title', {}, title.filter(Boolean).join(', ')),
    selected && shape(5, {class: 'st-focus'}),
    shape(0, {class: 'st-body'}),
    svg('text', {class: 'st-name', y: radius < 15 ? 3.5 : 5}, `P${id}`),
    leads &&
      svg('path', {class: 'st-crown', transform: `translate(0 ${-radius - 4})`, d: 'M-9 0L-10 -9L-4.5 -4.5L0 -11L4.5 -4.5L10 -9L9 0Z'}),
    mood === 'down' &&
      svg('path', {
        class: 'st-cross',
        d: `M${-radius * 0.7} ${-radius * 0.7}L${radius * 0.7} ${radius * 0.7}M${radius * 0.7} ${-radius * 0.7}L${-radius * 0.7} ${radius * 0.7}`,
      }),
    paused && svg('path', {class: 'st-bars', transform: `translate(${radius * 0.8} ${radius * 0.75})`, d: 'M-5 -5H-1V5H-5ZM1 -5H5V5H1Z'}),
    suspectedBy.length > 0 &&
      svg(
        'g',
        {class: 'st-suspected', transform: `translate(${-radius * 0.85} ${-radius * 0.85})`},
        svg('circle', {r: 8}),
        svg('text', {y: 3.5}, '?'),
      ),
    caption && svg('text', beside ? {class: 'st-caption st-beside', x: radius + 7, y: 5} : {class: 'st-caption', y: radius + 14}, caption),
    queue &&
      (beside ? chipRow(queue, radius + 6 + queue.chips.length * 7.5, caption ? 11 : -7) : chipRow(queue, 0, radius + (caption ? 20 : 6))),
  );
}

/** A queue as a row of squares, the head at the left. */
function chipRow({name, chips}, x, y, className = 'st-queue') {
  const width = 15;
  const left = x - (chips.length * width) / 2;
  return svg(
    'g',
    {class: className, transform: `translate(${left} ${y})`},
    svg('title', {}, `${name}: ${chips.map((chip) => (chip.startsWith('+') ? `${chip} more` : `P${chip}`)).join(', ')}`),
    chips.map((chip, index) =>
      svg(
        'g',
        {transform: `translate(${index * width} 0)`},
        svg('rect', {x: 1, width: width - 2, height: 14, rx: 3, class: index === 0 ? 'st-first' : null}),
        svg('text', {x: width / 2, y: 10.5}, chip),
      ),
    ),
  );
}

function message({id, tone, short, text, blocked, waits, copy, crowded: small}) {
  const still = blocked || waits;
  const classes = ['st-message', `tone-${tone}`, still && 'st-still'];
  return svg(
    'g',
    {class: classes.filter(Boolean).join(' '), data: {message: id}},
    svg(
      'title',
      {},
      `${text}${blocked ? ', waits for an earlier message of its link' : ''}${waits ? ', waits: the receiver is paused' : ''}`,
    ),
    svg('circle', {class: 'st-touch', r: 14}),
    svg('circle', {class: 'st-ring', r: small ? 11 : 16}),
    copy && svg('circle', {class: 'st-copy', r: small ? 8 : 13, cx: 3, cy: -3}),
    tone === 'token'
      ? svg('path', {class: 'st-dot', d: small ? 'M0 -9L9 0L0 9L-9 0Z' : 'M0 -14L14 0L0 14L-14 0Z'})
      : svg('circle', {class: 'st-dot', r: small ? 7 : 12.5}),
    !small && svg('text', {y: 3}, short),
  );
}

function token({fence, queue, side}) {
  const text = fence < 1000 ? String(fence) : 'T';
  // Wide enough for its number.
  const far = 7.5 + 2.5 * text.length;
  return svg(
    'g',
    {class: 'st-token'},
    svg('title', {}, `The token, fence ${fence}`),
    svg('path', {d: `M0 ${-far}L${far} 0L0 ${far}L${-far} 0Z`}),
    svg('text', {y: 3.5}, text),
    queue && queue.chips.length > 0 && chipRow(queue, side * (14 + queue.chips.length * 7.5), -7, 'st-queue st-token-queue'),
  );
}
