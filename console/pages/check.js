// Run the checker on a small group, with progress and a stop button, and open its counterexample.

import {byHand, request, verdict} from '../check/options.js';
import {button, copy, el, field, fill, select, withCode} from '../lib/dom.js';
import {number} from '../lib/format.js';
import {VERSION, address, specOf} from '../lib/route.js';
import {explained} from '../lib/tooltip.js';
import {headlineBox} from '../run/report.js';
import {createViewer} from '../run/viewer.js';

const PROPERTIES = ['', 'safety', 'deadlock', 'liveness', 'order', 'fence'];

export function mount(root, {query, about}, {api, replace, setTitle}) {
  setTitle('Check');
  const given = specOf(query);
  const start = given.spec ?? {algorithm: 'maekawa-no-inquire', n: 3};
  const asked = readOptions(query.options);
  const count = (value = '', placeholder = '0') => el('input', {type: 'number', min: '0', step: '1', value, placeholder, autocomplete: 'off'});
  const inputs = {
    algorithm: select(about.algorithms.map(({name, broken}) => ({value: name, group: broken ? 'Broken on purpose' : 'Healthy'})), start.algorithm),
    n: count(start.n ?? '', '3'), variant: el('input', {type: 'text', value: start.variant ?? '', placeholder: 'default', spellcheck: 'false', autocomplete: 'off'}),
    entries: count(asked.entries, '1'),
    order: select([{value: '', text: 'as tolerated'}, 'fifo', 'unordered'], asked.order ?? ''),
    property: select(PROPERTIES.map((value) => ({value, text: value || 'all that it promises'})), asked.property ?? ''),
    crash: count(asked.crash), recover: count(asked.recover, 'default'), loss: count(asked.loss), duplicate: count(asked.duplicate), suspect: count(asked.suspect), timers: count(asked.timers, '2'),
    ignore_assumptions: el('input', {type: 'checkbox', checked: asked.ignore_assumptions === true}),
  };
  const begin = button('Check', null, {class: 'primary', type: 'submit'});
  const form = el('form', {class: 'controls', 'aria-label': 'The check', novalidate: true, on: {submit: (event) => { event.preventDefault(); check(); }}},
    el('div', {class: 'controls-row'}, field('Algorithm', inputs.algorithm), field('Processes', inputs.n), field('Variant', inputs.variant), field('Entries each', inputs.entries), field('Property', inputs.property), field('Order of messages', inputs.order), begin),
    el('div', {class: 'controls-row second'},
      el('details', {class: 'more', open: Object.keys(asked).length > 0}, el('summary', {}, 'Faults that the checker may inject'),
        el('div', {class: 'pairs budget'}, field('Crashes', inputs.crash), field('Recoveries', inputs.recover), field('Losses', inputs.loss), field('Duplicates', inputs.duplicate), field('Wrong suspicions', inputs.suspect), field('Timers each', inputs.timers)),
        el('label', {class: 'check'}, inputs.ignore_assumptions, el('span', {}, 'Ignore assumptions ', el('span', {class: 'hint'}, 'Allow what the algorithm does not tolerate.'))))));
  const problem = el('p', {class: 'notice bad', role: 'alert', hidden: !given.error}, given.error ?? '');
  const result = el('div', {class: 'check-result', 'aria-live': 'polite'});
  let controller = null;
  let close = () => {};
  fill(root, el('div', {class: 'run-head'}, el('h1', {}, 'Check'),
    el('p', {class: 'lead'}, explained('The checker tries every order of the steps of a small group. It finds the shortest run that breaks a promise, or shows that every state keeps all of them.', new Set(['group'])))),
  form, problem, result);

  async function check() {
    close();
    close = () => {};
    controller?.abort();
    controller = new AbortController();
    const {signal} = controller;
    const values = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.type === 'checkbox' ? input.checked : input.value.trim()]));
    const body = request(values);
    problem.hidden = true;
    replace(address('check', [], {v: VERSION, spec: JSON.stringify(body.spec), options: Object.keys(body.options).length ? JSON.stringify(body.options) : undefined}));
    const progress = progressBar(() => controller.abort());
    fill(result, progress.element);
    begin.disabled = true;
    try {
      const found = await api.stream('/api/check', body, {signal, progress: progress.show});
      show(body, found);
    } catch (error) {
      if (api.isAbort(error)) fill(result, el('p', {class: 'notice'}, `Stopped after ${progress.said()}.`));
      else {
        fill(result);
        problem.hidden = false;
        fill(problem, withCode(error.message));
      }
    } finally {
      if (controller.signal === signal) begin.disabled = false;
    }
  }

  function show({spec}, {report, text, trace, scene, actions, command}) {
    const stage = el('div', {});
    const copying = button('Copy', () => copy(command, copying), {class: 'button', 'aria-label': 'Copy the command'});
    fill(result,
      el('div', {id: 'verdict'}, headlineBox(verdict(report))),
      el('p', {class: 'muted'}, `${number(report.states)} states, ${number(report.transitions)} transitions, ${number(report.depth)} steps deep, ${report.seconds < 0.005 ? 'less than 0.01' : number(report.seconds, 2)} s.`),
      actions && el('p', {class: 'row'}, el('a', {class: 'button', href: byHand(spec, actions, about.algorithms.find(({name}) => name === spec.algorithm))}, 'Open the counterexample by hand')),
      stage,
      el('section', {class: 'again'}, text?.length > 0 && [el('h2', {}, 'The counterexample as text'), el('ol', {class: 'steps'}, text.map((line) => el('li', {}, line)))], el('h2', {}, 'Do it again'), el('p', {class: 'command'}, el('code', {tabindex: '0'}, command), copying)));
    if (scene) close = createViewer(stage, {api, scene, source: trace ? {trace} : null, name: 'Space-time diagram of the counterexample'}).destroy;
  }

  if (given.spec && query.options !== undefined) check();
  return () => {
    controller?.abort();
    close();
  };
}

function readOptions(text) {
  try {
    const options = JSON.parse(text ?? '{}');
    return options && typeof options === 'object' && !Array.isArray(options) ? options : {};
  } catch {
    return {};
  }
}

function progressBar(stop) {
  const figures = Object.fromEntries(['states', 'depth', 'seconds'].map((name) => [name, el('b', {}, '0')]));
  const units = {states: 'states', depth: 'steps deep', seconds: 'seconds'};
  return {
    element: el('div', {class: 'progress', role: 'status'}, el('span', {class: 'busy', 'aria-label': 'The checker is working'}), Object.entries(figures).map(([name, value]) => el('span', {class: 'figure'}, value, units[name])), button('Stop', stop, {class: 'button'})),
    show(progress) {
      for (const [name, value] of Object.entries(figures)) if (progress[name] !== undefined) value.textContent = number(progress[name], 1);
    },
    said: () => `${figures.states.textContent} states`,
  };
}
