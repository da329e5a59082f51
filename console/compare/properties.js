// The table of properties: what each algorithm costs, and what it survives. Each cell links to a run that shows it.

import {el} from '../lib/dom.js';
import {address, runAddress} from '../lib/route.js';
import {label} from '../lib/tooltip.js';
import {nameOf} from './series.js';
import {number} from '../lib/format.js';
import {survives, trial} from './survives.js';

const N = 5;

export function propertiesTable(algorithms, rows) {
  const healthy = algorithms.filter(({family, broken}) => family === 'mutex' && !broken);
  const columns = ['Algorithm', 'Messages', 'Client delay', 'Sync delay', 'ORDER', 'Reordering', 'Loss', 'Duplicates', 'Crash'];
  return el('div', {class: 'scroll'}, el('table', {class: 'properties'},
    el('thead', {}, el('tr', {class: 'over'}, el('th', {colspan: 4}), el('th', {scope: 'col'}, 'Promises'), el('th', {colspan: 4, scope: 'colgroup'}, 'Survives')), el('tr', {}, columns.map((title) => el('th', {scope: 'col'}, label(title))))),
    el('tbody', {}, healthy.map((algorithm) => rowOf(algorithm, rows)))));
}

function rowOf(algorithm, rows) {
  const {name} = algorithm;
  const solo = rows.find((row) => nameOf(row) === name && row.load.startsWith('solo') && !row.refused);
  const busy = rows.find((row) => nameOf(row) === name && row.load === 'all' && !row.refused);
  const run = (load) => runAddress({algorithm: name, n: N, load});
  const cost = (pick, unit = '') => {
    const parts = [[solo, 'solo', 'alone'], [busy, 'all', 'busy']].filter(([row]) => row && pick(row) !== null && pick(row) !== undefined);
    return el('td', {}, parts.map(([row, load, word], at) => [at > 0 && ' · ', el('a', {href: run(row.load ?? load), title: `${word}, n = ${row.n}${row.formula && unit === '' ? `: ${row.formula}` : ''}`}, `${number(pick(row))}${unit}`)]), parts.length === 0 && el('a', {href: run('all')}, 'run it'));
  };
  const fault = (kind) => {
    const yes = survives(algorithm, kind);
    return el('td', {}, el('a', {class: `tag ${yes ? 'good' : 'bad'}`, href: runAddress(trial(algorithm, kind))}, yes ? 'yes' : 'no'));
  };
  const ordered = algorithm.promises.includes('order');
  return el('tr', {}, el('th', {scope: 'row'}, el('a', {href: address('algorithm', [name])}, name)),
    cost((row) => row.messages_per_entry), cost((row) => row.client_delay_mean, ' T'), cost((row) => row.sync_delay_mean, ' T'),
    el('td', {}, el('a', {class: `tag ${ordered ? 'good' : ''}`, href: runAddress({algorithm: name, n: 3, load: 'random', think: 3, network: 'async', 'app-messages': true, seed: 2})}, ordered ? 'yes' : 'no')),
    fault('order'), fault('loss'), fault('duplicate'), fault('crash'));
}
