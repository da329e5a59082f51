// The goal of a challenge above the bench: what to break, how many steps so far, and whether it is done.

import {el, fill} from '../lib/dom.js';
import {plural} from '../lib/format.js';
import {address} from '../lib/route.js';
import {bests, solved} from './best.js';
import {allowedText} from './rules.js';
import {stepsToBreak} from './lamp.js';
import {goalText} from './sentence.js';

export function createTarget({id, property, lamp, rules, steps: shortest}) {
  const element = el('div', {class: 'target card', data: {solved: 'false'}});
  // The first state may come from a link, and then somebody else has found it.
  let isOwn = false;

  function goal() {
    const best = bests().get(id);
    const allowed = allowedText(rules);
    return [
      el('h2', {}, `${goalText(property)} in as few steps as you can`),
      el(
        'p',
        {},
        allowed && `You may use ${allowed}. `,
        `The shortest way has ${plural(shortest, 'step')}. `,
        best === undefined ? 'You have not broken it yet.' : `Your best: ${plural(best, 'step')}.`,
      ),
    ];
  }

  function verdict(steps, detail) {
    return [
      el('h2', {}, `Solved in ${plural(steps, 'step')} (shortest ${shortest})`),
      detail && el('p', {}, detail),
      el(
        'p',
        {},
        steps <= shortest ? 'No shorter run breaks it. ' : 'There is a shorter way: go back and try another choice. ',
        el('a', {href: address('challenges')}, 'All challenges'),
      ),
    ];
  }

  return {
    element,
    show(state, steps) {
      const needed = stepsToBreak(state, lamp[0], steps);
      element.dataset.solved = String(needed !== null);
      if (needed !== null && isOwn) solved(id, needed);
      isOwn = true;
      const count = needed ?? steps;
      const detail = state.lamps.find((one) => one.property === lamp[0])?.detail;
      fill(
        element,
        el('div', {class: 'target-count'}, el('b', {}, String(count)), el('span', {}, count === 1 ? 'step' : 'steps')),
        el('div', {class: 'target-words', role: 'status'}, needed === null ? goal() : verdict(needed, detail)),
      );
    },
  };
}
