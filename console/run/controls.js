// The form of a run: algorithm, group, network, load, faults; or a scenario.

import {button, el, field, fill, select, withCode} from '../lib/dom.js';
import {plural} from '../lib/format.js';
import {createFaultForm} from './faultform.js';
import {applies, fromForm} from './spec.js';

const LOADS = [
  {value: '', text: 'all want to enter'}, {value: 'solo', text: 'one at a time'}, {value: 'solo-random', text: 'one, at random'}, {value: 'random', text: 'random times'},
];
const APPENDS = [{value: '', text: 'all append'}, ...LOADS.slice(1)];
const NOTICES = [{value: '', text: 'all notice'}, {value: 'solo', text: 'the lowest notices'}, {value: 'solo-random', text: 'a random one notices'}];
const OTHER = 'other';

/** A refusal of the server: `{text, canIgnore}`. The hint at the flag of the command line is cut off, because a page has a button for it. */
export function readRefusal(message) {
  const [text, hint] = String(message ?? '').split(/; --ignore-assumptions \w+ it all the same/);
  return {text, canIgnore: hint !== undefined};
}

/** A refusal as it is shown. `anyway()` is called if the reader wants the run without the assumptions. */
export function refusal(message, anyway) {
  const {text, canIgnore} = readRefusal(message);
  return [withCode(text), canIgnore && ['. ', button('Run it all the same', anyway, {class: 'button', data: {anyway: ''}})]];
}

/** `run(spec)` is called when the reader submits the form; `scenario(name)` when a scenario is chosen. */
export function createControls(about, {run, scenario}) {
  const names = new Map(about.algorithms.map((algorithm) => [algorithm.name, algorithm]));
  const groups = {asks: 'Mutual exclusion', elections: 'Elections', detectors: 'Detectors', append: 'Record append'};
  const groupOf = ({family, broken}) => `${{mutex: groups.asks, election: groups.elections, detector: groups.detectors, append: groups.append}[family]}${broken ? ', broken on purpose' : ''}`;
  const input = (type, attributes = {}) => el('input', {type, autocomplete: 'off', ...attributes});
  const count = (attributes) => input('number', {min: '0', step: 'any', ...attributes});

  const inputs = {
    algorithm: select(about.algorithms.map((algorithm) => ({value: algorithm.name, group: groupOf(algorithm)})), 'ricart-agrawala', () => refresh()),
    n: count({min: '1', max: about.limits?.run_processes, step: '1', placeholder: '5'}),
    variantName: select([], '', () => refreshVariant()),
    variantText: input('text', {spellcheck: 'false', 'aria-label': 'Variant as text', placeholder: 'default', on: {change: () => inputs.variantText.value.trim() === '' && refresh('')}}),
    coordinators: count({min: '1', step: '1', placeholder: 'default'}), votes: count({min: '1', step: '1', placeholder: 'default'}),
    load: select(LOADS, ''), entries: count({min: '1', step: '1', placeholder: '20 n'}), hold: count({placeholder: '1'}), think: count({placeholder: 'default'}),
    network: select([{value: 'sync', text: 'sync: 1 T each'}, {value: 'async', text: 'async: heavy tail'}], 'sync'),
    delay: input('text', {placeholder: 'uniform:1,2', spellcheck: 'false'}), 'delay-max': count({placeholder: 'default'}),
    order: select([{value: '', text: 'as needed'}, {value: 'fifo', text: 'fifo'}, {value: 'unordered', text: 'unordered'}], ''),
    loss: count({max: '1', placeholder: '0'}), duplicate: count({max: '1', placeholder: '0'}), drift: count({max: '1', placeholder: '0'}),
    store: select([{value: '', text: 'none'}, {value: 'fenced', text: 'checks fences'}, {value: 'unfenced', text: 'checks nothing'}], ''),
    seed: count({min: '0', max: '9007199254740991', step: '1', placeholder: '1'}),
    'app-messages': input('checkbox'), detector: input('checkbox', {checked: true}), 'ignore-assumptions': input('checkbox'),
  };
  const faults = createFaultForm([], {clients: () => Number(inputs.n.value) || 5, changed: () => refresh()});
  const stories = select([{value: '', text: 'own settings'}, ...about.scenarios.map(({name, title}) => ({value: name, text: title}))], '', (name) => scenario(name));
  const fields = {};
  const named = (name, label, control = inputs[name], hint) => { fields[name] = field(label, control, hint); return fields[name]; };
  const check = (name, text, hint) => {
    fields[name] = el('label', {class: 'check'}, inputs[name], el('span', {}, text, hint && el('span', {class: 'hint'}, ` ${hint}`)));
    return fields[name];
  };
  const variant = field('Variant', inputs.variantName);
  variant.append(inputs.variantText);
  const more = el('summary', {}, 'Faults, network and store');
  const details = el('details', {class: 'more'}, more,
    el('div', {class: 'more-grid'},
      el('fieldset', {}, el('legend', {}, 'Faults'), faults.element),
      el('fieldset', {}, el('legend', {}, 'Network'), el('div', {class: 'pairs'},
        named('delay', 'Delay (T)'), named('delay-max', 'Believed bound (T)'), named('order', 'Order of messages'), named('loss', 'Loss, 0 to 1'), named('duplicate', 'Duplicates, 0 to 1'), named('drift', 'Drift of clocks'))),
      el('fieldset', {}, el('legend', {}, 'Load and store'), el('div', {class: 'pairs'},
        named('hold', 'Time inside (T)'), named('think', 'Time between (T)'), named('store', 'Store'), named('coordinators', 'Coordinators'), named('votes', 'Votes that win'))),
      el('fieldset', {class: 'wide checks'}, el('legend', {}, 'Rules'),
        check('detector', 'Detector on', 'Off: no process is told of a crash.'),
        check('app-messages', 'Application messages', 'A request makes another process ask, too.'),
        check('ignore-assumptions', 'Ignore assumptions', 'Allow what the algorithm does not tolerate.'))));
  const submit = button('Run', null, {class: 'primary', type: 'submit'});
  const element = el('form', {class: 'controls', 'aria-label': 'The run', novalidate: true, on: {submit: (event) => {
    event.preventDefault();
    stories.value = '';
    run(read());
  }}},
  el('div', {class: 'controls-row'},
    named('algorithm', 'Algorithm'), named('n', 'Processes'), variant, named('network', 'Network'), named('load', 'Load'), named('entries', 'Entries'), named('seed', 'Seed'), submit),
  el('div', {class: 'controls-row second'}, details, el('div', {class: 'field scenario'}, el('label', {for: 'scenario'}, 'or a scenario'), Object.assign(stories, {id: 'scenario'}))));

  function read() {
    const algorithm = names.get(inputs.algorithm.value);
    const values = Object.fromEntries(Object.entries(inputs).map(([name, control]) => [name, control.type === 'checkbox' ? control.checked : control.value.trim?.() ?? control.value]));
    return fromForm({...values, variant: chosenVariant(), faults: faults.value, 'no-detector': !values.detector}, algorithm?.family ?? 'mutex');
  }

  const chosenVariant = () => (inputs.variantName.value === OTHER ? inputs.variantText.value.trim() : inputs.variantName.value);

  function refreshVariant(text) {
    const isOther = inputs.variantName.value === OTHER || inputs.variantName.value.includes(':');
    if (inputs.variantName.value.includes(':')) {
      inputs.variantText.value = `${inputs.variantName.value.split(':')[0]}:`;
      inputs.variantName.value = OTHER;
      setTimeout(() => inputs.variantText.focus());
    }
    if (text !== undefined) inputs.variantText.value = text;
    inputs.variantText.hidden = !isOther;
    inputs.variantName.hidden = isOther;
  }

  /** Offers what the algorithm knows, and hides what means nothing for it. */
  function refresh(wanted = chosenVariant()) {
    const algorithm = names.get(inputs.algorithm.value);
    if (!algorithm) return;
    const plain = algorithm.variants.filter((known) => !known.value).map((known) => known.name);
    const options = [{value: '', text: 'default'}, ...algorithm.variants.map((known) => ({value: known.name, text: known.name})), {value: OTHER, text: 'other …'}];
    const fresh = select(options, '');
    fill(inputs.variantName, [...fresh.children]);
    const known = !wanted || plain.includes(wanted);
    const fits = known || wanted.split('+').every((part) => algorithm.variants.some(({name}) => name.split(':')[0] === part.split(':')[0]));
    inputs.variantName.value = known ? wanted ?? '' : fits ? OTHER : '';
    refreshVariant(fits && !known ? wanted : '');
    variant.hidden = algorithm.variants.length === 0;
    const hasFaults = faults.value.some((fault) => fault !== 'random');
    for (const name of ['load', 'entries', 'hold', 'think', 'store', 'app-messages']) fields[name].hidden = !applies(name, algorithm.family, hasFaults);
    fields.coordinators.hidden = !algorithm.helpers;
    fields.votes.hidden = !algorithm.helpers;
    fields.load.querySelector('label').textContent = algorithm.family === 'election' ? 'Who notices' : 'Load';
    const load = inputs.load.value;
    fill(inputs.load, [...select({election: NOTICES, append: APPENDS}[algorithm.family] ?? LOADS, '').children]);
    inputs.load.value = [...inputs.load.options].some((option) => option.value === load) ? load : '';
    more.textContent = faults.value.length ? `Faults, network and store · ${plural(faults.value.length, 'fault')}` : 'Faults, network and store';
  }

  return {
    element,
    read,
    /** Shows a spec in the form. */
    show(spec, scenarioName = '') {
      stories.value = scenarioName;
      for (const [name, control] of Object.entries(inputs)) {
        if (control.type === 'checkbox') control.checked = name === 'detector' ? !spec['no-detector'] : Boolean(spec[name]);
        else if (!['variantName', 'variantText', 'algorithm'].includes(name)) control.value = name === 'network' ? spec.network ?? 'sync' : spec[name] ?? '';
      }
      if (spec.load === 'all') inputs.load.value = '';
      inputs.algorithm.value = spec.algorithm;
      faults.value = spec.faults ?? [];
      refresh(spec.variant ?? '');
    },
    busy(yes) {
      submit.disabled = yes;
    },
  };
}
