// What the signs of the diagram mean.

import {el} from '../lib/dom.js';
import {label} from '../lib/tooltip.js';
import {signsOf} from './signs.js';

const KEYS = [[', .', 'step back, forward'], ['space', 'play'], ['+ − 0', 'zoom in, out, show all'], ['← →', 'move'], ['Esc', 'the whole run']];

export function legend(scene) {
  return el('div', {class: 'reading'},
    el('dl', {class: 'reading-signs'}, signsOf(scene).flatMap(([sign, text]) => [el('dt', {}, el('span', {class: `swatch swatch-${sign}`, 'aria-hidden': 'true'})), el('dd', {}, label(text))])),
    el('h3', {}, 'Keys, once the diagram is clicked'),
    el('dl', {class: 'reading-keys'}, KEYS.flatMap(([key, text]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, text)])));
}
