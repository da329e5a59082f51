// The buttons above the drawing: start, back, forward, the count of steps, the arrangement, the link.

import {button, copy, el, fill} from '../lib/dom.js';
import {icon} from '../lib/icons.js';

const ARRANGEMENTS = {fixed: 'Circle', fathers: 'Tree of fathers'};

/** `onArrange(name)`: the processes shall stand in another way. */
export function createToolbar({onStart, onBack, onForward, onArrange}) {
  const start = button([icon('first'), 'Start'], onStart, {class: 'button small', title: 'Home'});
  const back = button([icon('back'), 'Back'], onBack, {class: 'button small', title: 'Backspace'});
  const forward = button([icon('forward'), 'Forward'], onForward, {class: 'button small', title: 'Right arrow'});
  const counter = el('span', {class: 'step-counter'});
  const busy = el('span', {class: 'busy bench-busy', hidden: true}, 'The group moves …');
  const link = button('Copy link', () => copy(location.href, link), {class: 'button small'});
  const choices = Object.entries(ARRANGEMENTS).map(([name, text]) =>
    button(text, () => arrange(name), {'aria-pressed': String(name === 'fixed'), data: {name}}),
  );
  const arrangement = el('span', {class: 'segments', role: 'group', 'aria-label': 'Arrangement', hidden: true}, choices);

  function arrange(chosen) {
    for (const choice of choices) choice.setAttribute('aria-pressed', String(choice.dataset.name === chosen));
    onArrange(chosen);
  }

  return {
    element: el('div', {class: 'stage-tools'}, el('div', {class: 'tool-group'}, start, back, forward), counter, busy, arrangement, link),
    busy(is) {
      busy.hidden = !is;
    },
    show({nodes, current}, {hasFathers}) {
      const {parent, last, depth} = nodes[current];
      start.disabled = back.disabled = parent === null;
      forward.disabled = last === null;
      fill(counter, el('b', {}, String(depth)), depth === 1 ? ' step' : ' steps');
      arrangement.hidden = !hasFathers;
    },
  };
}
