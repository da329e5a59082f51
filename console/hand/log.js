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
      const last = log.length - 1;
      const entries = log
        .map((entry, index) => ({...entry, index}))
        .slice(-SHOWN_MAX)
        .reverse();
      fill(
        list,
        entries.map(({text, effects, violations, index}) =>
          el(
            'li',
            {class: index === last ? 'newest' : null, value: index},
            button([el('span', {class: 'log-number'}, String(index)), el('span', {}, upper(text))], () => onGo(index), {
              class: 'plain log-step',
              'aria-current': index === last ? 'step' : null,
            }),
            effects.length > 0 &&
              el(
                'ul',
                {class: 'effects'},
                effects.map((effect) => el('li', {}, effect)),
              ),
            violations.map(({property, detail}) => el('p', {class: 'violation'}, el('b', {}, `${property}: `), detail)),
          ),
        ),
        log.length > SHOWN_MAX && el('li', {class: 'muted'}, `and ${log.length - SHOWN_MAX} steps before`),
      );
    },
  };
}
