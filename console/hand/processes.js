// The list of processes with what their users and the world can do to them, and the table of their states.

import {button, el, fill} from '../lib/dom.js';
import {label} from '../lib/tooltip.js';
import {key, parts} from './action.js';
import {mood, moodWord, table} from './picture.js';

const WISHES = {request: 'Ask', release: 'Leave', elect: 'Elect'};

/** `onAction(action)`, `onSelect(process)`, `onPause(process)`. */
export function createProcesses({onAction, onSelect, onPause}) {
  const list = el('ul', {class: 'process-list'});
  return {
    element: el('section', {class: 'panel-section'}, el('h2', {}, 'Processes'), list),
    show(state, {selected, paused}) {
      const focus = focusOf(list);
      const actions = state.enabled.map(({action}) => action);
      fill(
        list,
        state.processes.map((process) => processRow(process, actions, {selected, paused, onAction, onSelect, onPause})),
      );
      restore(list, focus);
    },
  };
}

function processRow(process, actions, {selected, paused, onAction, onSelect, onPause}) {
  const {id} = process;
  const held = paused.has(id);
  const of = (name, field = 'process') => actions.filter((action) => parts(action).name === name && parts(action).fields[field] === id);
  const act = (text, action, more = {}) =>
    button(text, () => onAction(action), {
      class: 'small',
      disabled: held && parts(action).name !== 'crash',
      data: {focus: `${id} ${key(action)}`, action: key(action)},
      ...more,
    });
  const wishes = of('user').map((action) => {
    const {wish} = parts(action).fields;
    return act(typeof wish === 'object' ? 'Append' : (WISHES[wish] ?? wish), action, {
      class: `small ${wish === 'release' ? 'primary' : 'inviting'}`,
    });
  });
  const faults = [
    ...of('crash').map((action) => act('Crash', action, {class: 'small quiet danger'})),
    ...of('recover').map((action) => act(parts(action).fields.memory ? 'Recover' : 'Recover, memory lost', action, {class: 'small quiet'})),
  ];
  const pause =
    process.up &&
    button(held ? 'Resume' : 'Pause', () => onPause(id), {
      class: 'small quiet',
      'aria-pressed': String(held),
      data: {focus: `${id} pause`},
    });
  const more = [
    ['Its detector suspects', of('suspect', 'by'), 'of'],
    ['Its detector trusts', of('trust', 'by'), 'of'],
    ['Its application sends to', of('app', 'from'), 'to'],
  ].filter(([, offered]) => offered.length > 0);
  const open = selected === id;
  return el(
    'li',
    {class: `process-row${open ? ' open' : ''}`, data: {process: id}},
    el(
      'div',
      {class: 'process-line'},
      button(
        [
          el('b', {}, `P${id}`),
          el('span', {class: `mood mood-${mood(process)}`}, process.role === 'helper' && process.up ? 'helper' : moodWord(process)),
          held && el('span', {class: 'mood mood-paused'}, 'paused'),
        ],
        () => onSelect(open ? null : id),
        {
          class: 'process-name',
          'aria-expanded': String(open),
          data: {focus: `${id} name`},
          title: open ? 'Less' : 'Detector and application',
        },
      ),
      el('span', {class: 'process-actions'}, wishes, faults, pause),
    ),
    open &&
      el(
        'div',
        {class: 'process-more'},
        more.length === 0 &&
          el('p', {class: 'muted'}, 'The rules allow no reports of its detector and no messages of its application now.'),
        more.map(([text, offered, field]) =>
          el(
            'p',
            {},
            el('span', {class: 'muted'}, `${text} `),
            offered.map((action) =>
              act(`P${parts(action).fields[field]}`, action, {
                class: 'small quiet',
                'aria-label': `${text} P${parts(action).fields[field]}`,
              }),
            ),
          ),
        ),
      ),
  );
}

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

/** Which button has the focus, by its meaning: the elements are made anew for each step. */
function focusOf(root) {
  return root.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
}

function restore(root, focus) {
  if (focus === undefined) return;
  const again = [...root.querySelectorAll('[data-focus]')].find((element) => element.dataset.focus === focus && !element.disabled);
  // If the button is gone (its action is done), the row of the process keeps the focus.
  const row = root.querySelector(`[data-process="${Number.parseInt(focus, 10)}"] button:not(:disabled)`);
  (again ?? row)?.focus({preventScroll: true});
}
