// The row of lamps: one for each property.

import {el, fill} from '../lib/dom.js';
import {label} from '../lib/tooltip.js';
import {look, news} from './lamp.js';

/** The row of lamps. Its changes are read aloud. */
export function createLamps() {
  const row = el('ul', {class: 'lamps', 'aria-label': 'Properties'});
  const voice = el('p', {class: 'unseen', role: 'status', 'aria-live': 'polite'});
  let shown = [];
  return {
    element: el('div', {class: 'lamps-box'}, row, voice),
    show(lamps) {
      const said = news(shown, lamps);
      if (said) fill(voice, said);
      shown = lamps;
      fill(
        row,
        lamps.map((lamp) => {
          const {tone, word} = look(lamp);
          return el(
            'li',
            {class: `lamp lamp-${tone}`, data: {property: lamp.property, state: lamp.state, tone}},
            el('span', {class: 'lamp-bulb', 'aria-hidden': 'true'}),
            el('span', {class: 'lamp-name'}, label(lamp.property)),
            el('span', {class: 'lamp-word'}, word),
            lamp.detail ? el('span', {class: 'lamp-detail'}, lamp.detail) : null,
          );
        }),
      );
    },
  };
}
