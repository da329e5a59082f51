// The list of processes with what their users and the world can do to them.

import {button, el, fill} from '../lib/dom.js';
import {key, parts} from './action.js';
import {mood, moodWord} from './picture.js';

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
  const open = selected === id;
  const of = (name, field = 'process') => actions.filter((action) => parts(action).name === name && parts(action).fields[field] === id);
  const act = (text, action, look, more = {}) =>
    button(text, () => onAction(action), {
      class: `small ${look}`,
      disabled: held && parts(action).name !== 'crash',
      data: {focus: `${id} ${key(action)}`, action: key(action)},
      ...more,
    });
  const more = [
    ['Its detector suspects', of('suspect', 'by'), 'of'],
    ['Its detector trusts', of('trust', 'by'), 'of'],
    ['Its application sends to', of('app', 'from'), 'to'],
  ].filter(([, offered]) => offered.length > 0);
  const toggle = () => onSelect(open ? null : id);
  const plain = (text, click, attributes) => button(text, click, {class: 'small quiet', ...attributes});
  const buttons = [
    of('user').map((action) => wishButton(action, act)),
    of('crash').map((action) => act('Crash', action, 'quiet danger')),
    of('recover').map((action) => act(parts(action).fields.memory ? 'Recover' : 'Recover, memory lost', action, 'quiet')),
    process.up && plain(held ? 'Resume' : 'Pause', () => onPause(id), {'aria-pressed': String(held), data: {focus: `${id} pause`}}),
    more.length > 0 &&
      plain(open ? 'Less' : 'More', toggle, {
        'aria-expanded': String(open),
        'aria-label': `Detector and application of P${id}`,
        data: {focus: `${id} more`},
      }),
  ];
  return el(
    'li',
    {class: `process-row${open ? ' open' : ''}`, data: {process: id}},
    el('div', {class: 'process-line'}, nameButton(process, {held, open, toggle}), el('span', {class: 'process-actions'}, buttons)),
    open && more.length > 0 && el('div', {class: 'process-more'}, ...more.map((offer) => offerRow(offer, act))),
  );
}

function wishButton(action, act) {
  const {wish} = parts(action).fields;
  return act(typeof wish === 'object' ? 'Append' : (WISHES[wish] ?? wish), action, wish === 'release' ? 'primary' : 'inviting');
}

/** Selects the process: the drawing then shows whom it has asked. */
function nameButton(process, {held, open, toggle}) {
  const word = process.role === 'helper' && process.up ? 'helper' : moodWord(process);
  const content = [
    el('b', {}, `P${process.id}`),
    el('span', {class: `mood mood-${mood(process)}`}, word),
    held && el('span', {class: 'mood mood-paused'}, 'paused'),
  ];
  return button(content, toggle, {class: 'process-name', 'aria-pressed': String(open), data: {focus: `${process.id} name`}});
}

function offerRow([text, offered, field], act) {
  const buttons = offered.map((action) => {
    const other = `P${parts(action).fields[field]}`;
    return act(other, action, 'quiet', {'aria-label': `${text} ${other}`});
  });
  return el('p', {}, el('span', {class: 'muted'}, `${text} `), buttons);
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
