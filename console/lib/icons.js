// Icons as paths on a field of 16 by 16, drawn in the colour of the text.

import {svg} from './dom.js';

const PATHS = {
  first: 'M3 3v10M13 3l-7 5 7 5z',
  back: 'M11 3l-7 5 7 5z',
  forward: 'M5 3l7 5-7 5z',
  last: 'M13 3v10M3 3l7 5-7 5z',
  play: 'M4 2.5l9 5.5-9 5.5z',
  pause: 'M5 3v10M11 3v10',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  fit: 'M2 5V2h3M11 2h3v3M14 11v3h-3M5 14H2v-3',
  sun: 'M8 5a3 3 0 100 6 3 3 0 000-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1',
  moon: 'M13.5 10A6 6 0 016 2.5 6 6 0 1013.5 10z',
  auto: 'M8 2a6 6 0 100 12A6 6 0 008 2z',
  half: 'M8 2a6 6 0 000 12z',
  close: 'M4 4l8 8M12 4l-8 8',
  link: 'M7 9l5-5M8 4h4v4M6 4H4v8h8v-2',
};
const FILLED = new Set(['first', 'back', 'forward', 'last', 'play', 'half']);
/** Icons of an outline and a filled part. */
const PARTS = {auto: ['auto', 'half']};

export function icon(name) {
  const paths = (PARTS[name] ?? [name]).map((part) => svg('path', {d: PATHS[part], class: FILLED.has(part) ? 'filled' : null}));
  return svg('svg', {class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true'}, paths);
}
