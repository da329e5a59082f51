// The table of the states of all processes.

import {button, el, fill} from '../lib/dom.js';
import {label} from '../lib/tooltip.js';
import {mood, moodWord, table} from './picture.js';

/** The state of every process in the words of the paper: a row for each part, a column for each process. */
export function createStates({onSelect}) {
  const head = el('tr');
  const body = el('tbody');
  const scroll = el(
    'div',
    {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'State of every process'},
    el('table', {class: 'states'}, el('thead', {}, head), body),
  );
  return {
    element: el('section', {class: 'card states-card'}, el('h2', {}, 'State of every process'), scroll),
    show(state, before, {selected}) {
      const on = (id) => (id === selected ? 'selected' : null);
      fill(
        head,
        el('th', {scope: 'col', class: 'unseen-cell'}, el('span', {class: 'unseen'}, 'part of the state')),
        state.processes.map((process) =>
          el(
            'th',
            {scope: 'col', class: on(process.id)},
            button(
              [`P${process.id}`, el('span', {class: `dot mood-${mood(process)}`, title: moodWord(process)})],
              () => onSelect(process.id === selected ? null : process.id),
              {class: 'plain'},
            ),
          ),
        ),
      );
      fill(
        body,
        table(state.processes, before?.processes).map(({name, cells}) =>
          el(
            'tr',
            {},
            el('th', {scope: 'row'}, label(name)),
            cells.map(({text, empty, token, changed}, index) => {
              const classes = [empty && 'empty', token && 'token', changed && 'changed', on(state.processes[index].id)];
              return el('td', {class: classes.filter(Boolean).join(' ') || null}, text);
            }),
          ),
        ),
      );
    },
  };
}
