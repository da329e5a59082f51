// What the signs of the diagram mean.

import {el} from '../lib/dom.js';
import {label} from '../lib/tooltip.js';

const SIGNS = [
  ['waiting', 'waits for the critical section, or for a leader'], ['inside', 'is in the critical section, with its fence'], ['leads', 'believes that it leads'],
  ['down', 'is down'], ['paused', 'is paused'], ['message', 'a message'], ['app', 'a message of the application'], ['lost', 'a message that is lost'], ['violation', 'a property is violated here'],
];
const KEYS = [[', .', 'step back, forward'], ['space', 'play'], ['+ − 0', 'zoom in, out, show all'], ['← →', 'move'], ['Esc', 'the whole run']];

export function legend() {
  return el('div', {class: 'reading'},
    el('dl', {class: 'reading-signs'}, SIGNS.flatMap(([sign, text]) => [el('dt', {}, el('span', {class: `swatch swatch-${sign}`, 'aria-hidden': 'true'})), el('dd', {}, label(text))])),
    el('h3', {}, 'Keys, once the diagram is clicked'),
    el('dl', {class: 'reading-keys'}, KEYS.flatMap(([key, text]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, text)])));
}
