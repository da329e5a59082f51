// Compare the costs of the algorithms: measured beside theory.

import {electionsTable} from '../compare/elections.js';
import {plot} from '../compare/plot.js';
import {propertiesTable} from '../compare/properties.js';
import {MEASURES, colourOf, costsInWords, hiddenAtFirst, nameOf, series, specOf} from '../compare/series.js';
import {button, el, fill} from '../lib/dom.js';
import {explained} from '../lib/tooltip.js';

const SIZES = [3, 5, 7, 9, 13, 16, 21, 25, 31];
const FIRST_SIZES = [3, 5, 9, 16, 25];
const LOADS = [['solo-random', 'One at a time'], ['all', 'All want to enter'], ['random', 'Random times']];

export function mount(root, {about}, {api, setTitle}) {
  setTitle('Compare');
  const state = {load: 'all', sizes: new Set(FIRST_SIZES), hidden: null, isLog: true, rows: [], elections: [], measured: new Set()};
  let controller = null;
  const plots = el('div', {class: 'plots'});
  const names = el('div', {class: 'choices', role: 'group', 'aria-label': 'Algorithms'});
  const status = el('div', {role: 'status'});
  const table = el('div', {});
  const told = el('p', {class: 'muted'});
  const elections = el('section', {class: 'claims', hidden: true});
  const loads = LOADS.map(([load, text]) => button(text, () => { state.load = load; pressed(); measure(); }, {data: {load}}));
  const kinds = [['linear', false], ['logarithmic', true]].map(([text, isLog]) => button(text, () => { state.isLog = isLog; pressed(); draw(); }, {data: {log: String(isLog)}}));
  const sizes = SIZES.map((n) => choice(String(n), state.sizes.has(n), (on) => {
    state.sizes[on ? 'add' : 'delete'](n);
    measure();
  }));
  fill(root, el('h1', {}, 'Compare'),
    el('p', {class: 'lead'}, explained('What each algorithm for mutual exclusion costs. Every dot is a simulated run, every line is a formula. The dots should lie on the lines. Choose a dot to watch a run like it.')),
    el('div', {class: 'controls'},
      el('div', {class: 'row'}, el('div', {class: 'segments', role: 'group', 'aria-label': 'Load'}, loads), el('div', {class: 'segments', role: 'group', 'aria-label': 'Scale'}, kinds)),
      el('div', {class: 'field'}, el('span', {class: 'label'}, 'Processes'), el('div', {class: 'choices', role: 'group', 'aria-label': 'Numbers of processes'}, sizes)),
      el('div', {class: 'field'}, el('span', {class: 'label'}, 'Algorithms'), names)),
    status, plots,
    el('section', {class: 'claims'}, el('h2', {}, 'Properties'), told, table), elections);
  pressed();
  showTable();
  measure();

  function pressed() {
    for (const one of loads) one.setAttribute('aria-pressed', String(one.dataset.load === state.load));
    for (const one of kinds) one.setAttribute('aria-pressed', String(one.dataset.log === String(state.isLog)));
  }

  /** Asks only for what is not known yet. */
  async function measure() {
    const missing = [...state.sizes].filter((n) => !state.measured.has(`${state.load}/${n}`)).sort((a, b) => a - b);
    controller?.abort();
    draw();
    if (missing.length === 0) return fill(status);
    controller = new AbortController();
    const {signal} = controller;
    const {load} = state;
    const part = el('span', {}, '0 %');
    fill(status, el('div', {class: 'progress'}, el('span', {class: 'busy'}, 'Runs are being measured: ', part), button('Stop', () => { controller.abort(); fill(status, el('p', {class: 'notice'}, 'Stopped.')); }, {class: 'button'})));
    try {
      const progress = (said) => { part.textContent = `${Math.round(100 * (said.done ?? said.part ?? 0))} %`; };
      const result = await api.stream('/api/compare', {algorithms: null, loads: [load], n: missing}, {signal, progress});
      const rows = Array.isArray(result) ? result : result.rows ?? result.mutex ?? [];
      state.rows.push(...rows);
      addElections(result.elections ?? []);
      for (const n of missing) state.measured.add(`${load}/${n}`);
      fill(status);
      draw();
      showTable();
    } catch (error) {
      if (!api.isAbort(error)) fill(status, el('p', {class: 'notice bad', role: 'alert'}, error.message));
    }
    return undefined;
  }

  function draw() {
    const rows = state.rows.filter(({n}) => state.sizes.has(n));
    const colours = colourOf(state.rows.map(nameOf));
    state.hidden ??= colours.size ? hiddenAtFirst(colours.keys()) : null;
    showNames(colours);
    fill(plots, Object.keys(MEASURES).map((measured) => {
      const shown = series(rows, measured, state.load).filter(({name}) => !state.hidden?.has(name));
      return plot(shown, {measure: measured, colours, isLog: state.isLog, specOf});
    }));
  }

  function showNames(colours) {
    if (names.childElementCount === colours.size) return;
    fill(names, [...colours].map(([name, colour]) => {
      const chip = choice(name, !state.hidden?.has(name), (on) => {
        state.hidden[on ? 'delete' : 'add'](name);
        draw();
      });
      chip.classList.add(`series-${colour}`);
      return chip;
    }), colours.size > 1 && [button('All', () => hideAll(colours, false), {class: 'link'}), button('None', () => hideAll(colours, true), {class: 'link'})]);
  }

  function hideAll(colours, hidden) {
    state.hidden = new Set(hidden ? colours.keys() : []);
    fill(names);
    draw();
  }

  function addElections(rows) {
    const known = new Set(state.elections.map(keyOf));
    state.elections.push(...rows.filter((row) => !known.has(keyOf(row))));
    elections.hidden = state.elections.length === 0;
    const n = Math.max(...state.elections.filter((row) => row.messages).map((row) => row.n));
    const shown = state.elections.filter((row) => row.n === n).sort((a, b) => a.algorithm.localeCompare(b.algorithm));
    fill(elections, el('h2', {}, `Elections, n = ${n}`), el('p', {class: 'muted'}, 'What it costs to choose a new leader: the least, the largest and the mean over all processes that may begin.'), electionsTable(shown));
  }

  function showTable() {
    fill(told, explained(`${costsInWords(state.rows)} What an algorithm survives follows from what it assumes. Each cell leads to a run that shows it.`));
    fill(table, propertiesTable(about.algorithms, state.rows));
  }

  return () => controller?.abort();
}

const keyOf = ({algorithm, variant, n, starts}) => JSON.stringify([algorithm, variant, n, starts]);

function choice(text, checked, change) {
  const box = el('input', {type: 'checkbox', checked, on: {change: () => change(box.checked)}});
  return el('label', {class: 'choice'}, box, el('i', {'aria-hidden': 'true'}), text);
}
