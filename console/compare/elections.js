// What an election costs: a table of measured and expected messages and times.

import {el} from '../lib/dom.js';
import {number} from '../lib/format.js';
import {runAddress} from '../lib/route.js';
import {label} from '../lib/tooltip.js';
import {nameOf} from './series.js';

const STARTS = {one: 'one process', all: 'all at once', 'all-on-random-rings': 'all, random rings'};
const LOADS = {one: 'solo', all: 'all', 'all-on-random-rings': 'all'};

export function electionsTable(rows) {
  const shown = rows.filter((row) => !row.refused && row.messages);
  if (shown.length === 0) return null;
  return el('div', {class: 'scroll'}, el('table', {class: 'properties'},
    el('thead', {}, el('tr', {}, ['Algorithm', 'Who begins', 'Messages', 'in theory', 'Time (T)', 'in theory', ''].map((title) => el('th', {scope: 'col'}, label(title))))),
    el('tbody', {}, shown.map((row) => el('tr', {},
      el('th', {scope: 'row'}, nameOf(row)), el('td', {}, STARTS[row.starts] ?? row.starts),
      el('td', {}, el('a', {href: runAddress({algorithm: row.algorithm, n: row.n, ...(row.variant ? {variant: row.variant} : {}), load: LOADS[row.starts] ?? 'all'})}, spread(row.messages))),
      el('td', {class: 'muted'}, expected(row.expected_messages)), el('td', {}, spread(row.time)), el('td', {class: 'muted'}, expected(row.expected_time)),
      el('td', {}, row.agrees ? el('span', {class: 'tag good'}, 'agrees') : el('span', {class: 'tag bad', title: row.differences.join('; ')}, 'differs')))))));
}

/** The least, the mean and the largest value, or one number if they are the same. */
export function spread(values) {
  if (!values) return '';
  const {best, mean, worst} = values;
  return best === worst ? number(mean) : `${number(best)} .. ${number(worst)}, mean ${number(mean)}`;
}

function expected(values) {
  const formulas = [values?.best, values?.mean, values?.worst].filter(Boolean).map(({formula}) => formula);
  return [...new Set(formulas)].join('; ');
}
