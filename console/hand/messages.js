// The list of the messages in flight and of the running timers. One click delivers or fires.

import {button, el, fill} from '../lib/dom.js';
import {plural} from '../lib/format.js';
import {tone} from '../structure/model.js';
import {deliver, drop, dueReports, duplicate, key, parts} from './action.js';

/** `onAction(action)`, `onChoose(id | null)`. */
export function createMessages({onAction, onChoose}) {
  const title = el('h2', {}, 'Messages in flight');
  const list = el('ol', {class: 'messages', 'aria-label': 'Messages in flight'});
  const timers = el('div', {class: 'timers'});
  const rows = new Map();

  function row(message, index, {allowed, paused}) {
    const can = (action) => allowed.has(key(action));
    const held = paused.has(message.to);
    const why = held ? `P${message.to} is paused` : message.blocked ? 'an earlier message of its link comes first' : '';
    const small = (text, action, label) =>
      button(text, () => onAction(action), {class: 'quiet small', disabled: !can(action), 'aria-label': `${label} message ${message.id}`});
    // The whole row delivers, too; but who sees the page first looks for a button. For the keyboard the row is enough.
    const go = button('deliver', () => onAction(deliver(message.id)), {
      class: 'inviting small',
      tabindex: '-1',
      disabled: held || !can(deliver(message.id)),
      'aria-label': `Deliver message ${message.id}`,
    });
    return el(
      'li',
      {
        class: `message-row tone-${tone(message)}`,
        data: {message: message.id},
        on: {pointerenter: () => onChoose(message.id), pointerleave: () => onChoose(null)},
      },
      el('span', {class: 'message-key', 'aria-hidden': 'true'}, index < 9 ? String(index + 1) : ''),
      el(
        'button',
        {
          type: 'button',
          class: 'message-main',
          disabled: held || !can(deliver(message.id)),
          data: {deliver: message.id},
          on: {click: () => onAction(deliver(message.id)), focus: () => onChoose(message.id)},
          'aria-label': `Deliver message ${message.id}, P${message.from} to P${message.to}, ${message.text}${why ? `; ${why}` : ''}`,
        },
        el('span', {class: 'message-link'}, `P${message.from} → P${message.to}`),
        el('b', {class: 'message-kind'}, message.kind),
        el('span', {class: 'message-body'}, fields(message)),
      ),
      el('span', {class: 'message-more'}, go, small('lose', drop(message.id), 'Lose'), small('copy', duplicate(message.id), 'Copy')),
      why && el('span', {class: 'message-why'}, why),
    );
  }

  const small = (content, action, label, disabled) =>
    button(content, () => onAction(action), {class: 'quiet small', disabled, 'aria-label': label, data: {action: key(action)}});

  function timerList(state, {paused, allowed}) {
    if (state.timers.length === 0) return null;
    const one = ({process, name, after}) => {
      const action = {timer: {process, name}};
      const content = [`P${process} `, el('b', {}, name), el('span', {class: 'muted'}, ` ${after} ticks`)];
      return small(content, action, `Fire the timer ${name} of P${process}`, paused.has(process) || !allowed.has(key(action)));
    };
    return [el('h3', {}, 'Timers'), el('div', {class: 'timer-list'}, state.timers.map(one))];
  }

  function reportList(state, {paused}) {
    const due = dueReports(
      state.enabled.map(({action}) => action),
      state.processes,
    );
    if (due.length === 0) return null;
    const one = (action) => {
      const {name, fields} = parts(action);
      const said = `P${fields.of} is ${name === 'suspect' ? 'down' : 'up'}`;
      return small(
        [`tell P${fields.by}: `, el('b', {}, said)],
        action,
        `The detector tells P${fields.by} that ${said}`,
        paused.has(fields.by),
      );
    };
    return [el('h3', {}, 'Detector reports that are due'), el('div', {class: 'timer-list'}, due.map(one))];
  }

  return {
    element: el('section', {class: 'panel-section'}, title, list, timers),
    show(state, {paused, allowed}) {
      // The focus stays at the place in the list: after a delivery the next message is there.
      const focused = list.contains(document.activeElement)
        ? [...list.children].findIndex((child) => child.contains(document.activeElement))
        : -1;
      rows.clear();
      title.textContent = state.pending.length === 0 ? 'No message in flight' : `${plural(state.pending.length, 'message')} in flight`;
      fill(
        list,
        state.pending.map((message, index) => {
          const made = row(message, index, {allowed, paused});
          rows.set(message.id, made);
          return made;
        }),
      );
      if (focused >= 0)
        list.children[Math.min(focused, list.children.length - 1)]?.querySelector('.message-main')?.focus({preventScroll: true});
      fill(timers, timerList(state, {paused, allowed}), reportList(state, {paused}));
    },
    mark(chosen, hinted) {
      for (const [id, made] of rows) {
        made.classList.toggle('chosen', id === chosen);
        made.classList.toggle('hinted', id === hinted);
      }
    },
    /** Gives a message the focus, so that Enter delivers it. A message that cannot arrive yet takes none. */
    focus(id) {
      const main = rows.get(id)?.querySelector('.message-main');
      if (main?.disabled) document.activeElement?.blur();
      else main?.focus({preventScroll: true});
      this.reveal(id);
    },
    /** Brings a message into view in the list, not in the page. */
    reveal(id) {
      const made = rows.get(id);
      if (!made || list.scrollHeight <= list.clientHeight) return;
      const top = made.offsetTop - list.offsetTop;
      if (top < list.scrollTop || top + made.offsetHeight > list.scrollTop + list.clientHeight)
        list.scrollTop = top - list.clientHeight / 2;
    },
  };
}

/** The text of the server without the kind, which stands beside it. */
function fields({kind, text}) {
  return text.startsWith(kind) ? text.slice(kind.length).trim() : text;
}
