// The table of properties: what each algorithm costs, and what it survives. Each cell links to a run that shows it.

import {el} from '../lib/dom.js';
import {address, runAddress} from '../lib/route.js';
import {label} from '../lib/tooltip.js';
import {LOAD_WORDS, MEASURES, largest, specOf} from './series.js';
import {number} from '../lib/format.js';
import {survives, trial} from './survives.js';

export function propertiesTable(algorithms, rows) {
  const healthy = algorithms.filter(({family, broken}) => family === 'mutex' && !broken);
  const columns = ['Algorithm', 'Messages', 'Client delay', 'Sync delay', 'ORDER', 'Reordering', 'Loss', 'Duplicates', 'Crash'];
  return el('div', {class: 'scroll'}, el('table', {class: 'properties'},
    el('thead', {}, el('tr', {class: 'over'}, el('th', {colspan: 4}), el('th', {scope: 'col'}, 'Promises'), el('th', {colspan: 4, scope: 'colgroup'}, 'Survives')), el('tr', {}, columns.map((title) => el('th', {scope: 'col'}, label(title))))),
    el('tbody', {}, healthy.map((algorithm) => rowOf(algorithm, rows)))));
}

function rowOf(algorithm, rows) {
  const {name} = algorithm;
  const found = largest(rows, name);
  const most = Math.max(...rows.filter(({refused}) => !refused).map(({n}) => n));
  const cost = (measure, unit = '') => {
    const {measured, expected} = MEASURES[measure];
    const parts = found.filter((row) => typeof measured(row) === 'number');
    return el('td', {class: 'cost'}, parts.map((row) => el('div', {},
      el('a', {href: runAddress(specOf(row)), title: `${LOAD_WORDS[row.load]}, n = ${row.n}`}, `${number(measured(row))}${unit}`),
      row.n < most && el('span', {class: 'muted'}, ` n = ${row.n}`),
      expected(row) && el('span', {class: 'formula'}, expected(row).formula))),
    parts.length === 0 && el('a', {href: runAddress({algorithm: name, n: 5})}, 'run it'));
  };
  const fault = (kind) => {
    const yes = survives(algorithm, kind);
    return el('td', {}, el('a', {class: `tag ${yes ? 'good' : 'bad'}`, href: runAddress(trial(algorithm, kind))}, yes ? 'yes' : 'no'));
  };
  const ordered = algorithm.promises.includes('order');
  return el('tr', {}, el('th', {scope: 'row'}, el('a', {href: address('algorithm', [name])}, name)),
    cost('messages'), cost('client', ' T'), cost('sync', ' T'),
    el('td', {}, el('a', {class: `tag ${ordered ? 'good' : ''}`, href: runAddress({algorithm: name, n: 3, load: 'random', think: 3, network: 'async', 'app-messages': true, seed: 2})}, ordered ? 'yes' : 'no')),
    fault('order'), fault('loss'), fault('duplicate'), fault('crash'));
}
