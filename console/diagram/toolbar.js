// The controls above a diagram: steps, play, spacing, zoom.

import {button, el, fill, select} from '../lib/dom.js';
import {icon} from '../lib/icons.js';
import {number} from '../lib/format.js';

const PACES = [{value: '1200', text: 'slow'}, {value: '600', text: 'normal'}, {value: '200', text: 'fast'}, {value: '50', text: 'very fast'}];

export function createToolbar(actions, {compact}) {
  const tool = (name, label, click) => button(icon(name), click, {class: 'tool', 'aria-label': label, title: label});
  const play = tool('play', 'Play (space)', actions.play);
  play.classList.add('play');
  const where = el('button', {type: 'button', class: 'diagram-where', title: 'Show the whole run (Escape)', on: {click: actions.whole}});
  const pace = select(PACES, '600', (value) => actions.pace(Number(value)));
  pace.setAttribute('aria-label', 'Speed of playing');
  const spacings = ['time', 'order'].map((spacing) => button(spacing === 'time' ? 'Time' : compact ? 'Order' : 'Logical order', () => actions.spacing(spacing), {
    'aria-pressed': 'false', data: {spacing},
    title: spacing === 'time' ? 'Distances show time; long gaps are shortened' : 'One column for each step in happened-before order',
  }));
  const element = el('div', {class: 'diagram-bar', role: 'toolbar', 'aria-label': 'Diagram'},
    el('div', {class: 'group'},
      tool('first', 'First event (Home)', actions.first),
      tool('back', 'One step back (comma)', () => actions.step(-1)),
      play,
      tool('forward', 'One step forward (period)', () => actions.step(1)),
      tool('last', 'Last event (End)', actions.last)),
    where,
    !compact && pace,
    el('span', {class: 'space'}),
    el('div', {class: 'segments', role: 'group', 'aria-label': 'Spacing'}, spacings),
    el('div', {class: 'group'},
      tool('minus', 'Zoom out (minus)', () => actions.zoom(1 / 1.35)),
      tool('fit', 'Show all (0)', actions.fit),
      tool('plus', 'Zoom in (plus)', () => actions.zoom(1.35))));
  return {
    element,
    playing(yes) {
      fill(play, icon(yes ? 'pause' : 'play'));
      const label = yes ? 'Pause (space)' : 'Play (space)';
      play.setAttribute('aria-label', label);
      play.title = label;
    },
    position(at, of, when) {
      fill(where, at ? [el('b', {}, number(at)), ` of ${number(of)}`, !compact && el('span', {class: 'when'}, when)] : `${number(of)} events`);
    },
    spacing(chosen) {
      for (const choice of spacings) choice.setAttribute('aria-pressed', String(choice.dataset.spacing === chosen));
    },
  };
}
