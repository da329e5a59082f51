// The steps of the shown run, with what each of them did in the algorithm's own words. The newest is on top.

import {button, el, fill} from '../lib/dom.js';

/** Long runs show their last steps; the diagram has them all. */
const SHOWN_MAX = 200;

const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** `onGo(index)`: a step was clicked, 0 is the start. */
export function createLog({onGo}) {
  const list = el('ol', {class: 'log', reversed: true});
  return {
    element: el(
      'section',
      {class: 'card log-card'},
      el('h2', {}, 'What happened'),
      el('div', {class: 'log-scroll', tabindex: '0', role: 'region', 'aria-label': 'What happened'}, list),
    ),
    show(log) {
      const entries = log.map((entry, index) => stepRow(entry, index, index === log.length - 1, () => onGo(index)));
      const earlier = log.length - SHOWN_MAX;
      fill(list, entries.slice(-SHOWN_MAX).reverse(), earlier > 0 && el('li', {class: 'muted'}, `and ${earlier} steps before`));
    },
  };
}

function stepRow({text, effects, violations}, index, newest, go) {
  // The first effect of a delivery repeats the action, and violations have their own line.
  const more = effects.filter((effect) => effect !== text && !effect.startsWith('VIOLATES '));
  const name = [el('span', {class: 'log-number'}, String(index)), el('span', {}, upper(text))];
  return el(
    'li',
    {class: newest ? 'newest' : null, value: index},
    button(name, go, {class: 'plain log-step', 'aria-current': newest ? 'step' : null}),
    more.length > 0 && el('ul', {class: 'effects'}, ...more.map((effect) => el('li', {}, effect))),
    violations.map(({property, detail}) => el('p', {class: 'violation'}, el('b', {}, `${property}: `), detail)),
  );
}
