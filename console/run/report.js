// The result of a run: the verdict in one sentence, the promises, and the costs beside theory.

import {el, withCode} from '../lib/dom.js';
import {number} from '../lib/format.js';
import {explained, label} from '../lib/tooltip.js';
import {agreement, costs, promises} from './verdict.js';

/** One sentence about a run, as large as it is important. */
export function headline(report, algorithm) {
  return headlineBox(promises(report, algorithm?.promises ?? []).headline);
}

export function headlineBox({tone, text, detail}) {
  return el('div', {class: `headline ${tone}`}, el('p', {class: 'said'}, el('span', {class: 'bullet', 'aria-hidden': 'true'}), text), detail && el('p', {class: 'detail'}, withCode(detail)));
}

export function reportOf({report, theory}, algorithm) {
  const {rows} = promises(report, algorithm?.promises ?? []);
  const measured = costs(report, theory ?? report.theory);
  const hasTheory = measured.some((row) => row.theory);
  return el('section', {class: 'report', 'aria-label': 'Report'},
    el('div', {class: 'report-part'}, el('h2', {}, 'Promises'), el('table', {class: 'promises'}, el('tbody', {}, rows.map(promiseRow)))),
    el('div', {class: 'report-part grow'}, el('h2', {}, hasTheory ? 'Measured, and in theory' : 'Measured'), el('div', {class: 'scroll'}, el('table', {class: 'costs'},
      hasTheory && el('thead', {}, el('tr', {}, ['', 'measured', 'theory', 'formula', ''].map((text, at) => el('th', {class: at === 1 || at === 2 ? 'number' : null}, text)))),
      el('tbody', {}, measured.map((row) => costRow(row, hasTheory)))))),
    byKind(report));
}

function promiseRow({property, promised, verdict, detail}) {
  const tone = verdict === 'held' ? 'good' : verdict === 'violated' ? 'bad' : 'muted';
  const word = {held: 'held', violated: 'violated', unchecked: 'not checked', untested: 'not tested'}[verdict] ?? verdict;
  return el('tr', {class: `lamp-${tone}`},
    el('th', {scope: 'row'}, el('span', {class: `bullet ${tone}`, 'aria-hidden': 'true'}), label(property)),
    el('td', {class: tone}, word), el('td', {class: 'muted'}, detail ? withCode(verdict === 'violated' && !promised ? `${detail} (not promised)` : detail) : promised ? 'promised' : 'not promised'));
}

function costRow({name, value, unit, theory, note}, hasTheory) {
  const verdict = agreement(value, theory);
  return el('tr', {},
    el('th', {scope: 'row'}, label(name), note && el('span', {class: 'muted'}, ` ${note}`)),
    el('td', {class: 'number'}, `${number(value)}${unit ? ` ${unit}` : ''}`),
    hasTheory && el('td', {class: 'number theory'}, theory ? `${theory.kind === 'bound' ? 'bound ' : ''}${number(theory.value)}` : ''),
    hasTheory && el('td', {class: 'mono muted'}, theory?.formula ?? ''),
    hasTheory && el('td', {}, verdict && el('span', {class: `tag ${verdict.tone}`, title: verdict.why}, verdict.word)));
}

function byKind(report) {
  const kinds = Object.entries(report.messages_by_kind ?? {}).sort((a, b) => b[1] - a[1]);
  if (kinds.length === 0) return null;
  const most = kinds[0][1];
  return el('div', {class: 'report-part'}, el('h2', {}, 'Messages by kind'), el('div', {class: 'kinds', role: 'list'}, kinds.map(([kind, count]) => {
    const bar = el('span', {class: 'kind-bar', 'aria-hidden': 'true'});
    bar.style.width = `${(100 * count) / most}%`;
    return el('div', {class: 'kind', role: 'listitem'}, el('span', {class: 'mono'}, kind), el('span', {class: 'kind-track'}, bar), el('span', {class: 'number'}, number(count)));
  })));
}

/** What the algorithm assumes and promises, as one text with explained words. */
export function facts(algorithm) {
  const said = (words, joined) => (words.length ? words.join(joined) : 'nothing');
  return explained(`Assumes: ${said(algorithm.assumes, '; ')}. Promises: ${said(algorithm.promises, ', ')}.`);
}
