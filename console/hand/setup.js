// The form for group and rules: algorithm, n, variant, order of links, allowed faults.

import {el, field, fill, select} from '../lib/dom.js';
import {explained} from '../lib/tooltip.js';
import {COUNTS, N_MAX, defaultRules, needsFifo} from './rules.js';
import {sentence} from './sentence.js';

const COUNT_WORDS = {
  losses: 'Lost messages',
  duplicates: 'Copied messages',
  crashes: 'Crashes',
  recoveries: 'Recoveries',
  mistakes: 'Wrong suspicions',
  app_messages: 'Application messages',
};

/** `onStart(spec, rules)`. */
export function createSetup({algorithms, spec, rules, onStart}) {
  const known = (name) => algorithms.find((algorithm) => algorithm.name === name);
  const about = el('p', {class: 'muted setup-about'});
  const variants = el('div', {class: 'setup-variants'});
  const options = algorithms.map(({name, card, broken}) => ({value: name, text: broken ? `${name} (broken on purpose)` : name, group: card}));
  const algorithm = select(options, spec.algorithm, () => chosen(true));
  const n = el('input', {type: 'number', min: 1, max: N_MAX, step: 1, required: true, value: spec.n ?? 3, inputmode: 'numeric'});
  const coordinators = el('input', {
    type: 'number',
    min: 1,
    max: N_MAX,
    step: 1,
    placeholder: 'default',
    value: spec.coordinators ?? '',
    inputmode: 'numeric',
  });
  const votes = el('input', {
    type: 'number',
    min: 1,
    max: N_MAX,
    step: 1,
    placeholder: 'default',
    value: spec.votes ?? '',
    inputmode: 'numeric',
  });
  const helperFields = el('div', {class: 'setup-pair'}, field('Coordinators', coordinators), field('Votes that win', votes));
  const order = select(
    [
      {value: 'fifo', text: 'in the order of sending (FIFO)'},
      {value: 'any', text: 'in any order'},
    ],
    rules.fifo ? 'fifo' : 'any',
  );
  const orderField = field('Links deliver', order);
  const counts = Object.fromEntries(
    COUNTS.map((name) => [
      name,
      el('input', {type: 'number', min: 0, max: 1000, step: 1, required: true, value: rules[name], inputmode: 'numeric'}),
    ]),
  );
  let choices = [];

  function chosen(anew) {
    const {summary, variants: its = [], helpers, broken} = known(algorithm.value) ?? {};
    fill(about, explained([summary, broken && `broken on purpose: ${broken}`].filter(Boolean).map(sentence).join(' ')));
    helperFields.hidden = !helpers;
    if (anew) order.value = needsFifo(known(algorithm.value)) ? 'fifo' : 'any';
    const asked = new Map(
      (anew ? '' : (spec.variant ?? ''))
        .split('+')
        .filter(Boolean)
        .map((part) => part.split(/:(.*)/s)),
    );
    choices = its.map(({name, value}) => {
      const plain = name.split(':')[0];
      const box = el('input', {type: 'checkbox'});
      box.checked = asked.has(plain);
      const given = value
        ? el('input', {
            type: 'text',
            class: 'variant-value',
            'aria-label': `value of ${plain}`,
            placeholder: name.split(':')[1] ?? 'value',
            value: asked.get(plain) ?? '',
          })
        : null;
      given?.addEventListener('input', () => {
        box.checked = given.value !== '';
      });
      return {plain, box, given};
    });
    fill(
      variants,
      its.length > 0 && el('span', {class: 'label muted'}, 'Variants'),
      choices.map(({plain, box, given}, index) =>
        el(
          'div',
          {class: 'setup-variant'},
          el('label', {class: 'check'}, box, el('span', {}, el('b', {}, plain), el('span', {class: 'muted'}, ` ${its[index].summary}`))),
          given,
        ),
      ),
    );
  }

  function read() {
    const variant = choices
      .filter(({box}) => box.checked)
      .map(({plain, given}) => (given?.value ? `${plain}:${given.value}` : plain))
      .join('+');
    const group = {algorithm: algorithm.value, n: Number(n.value)};
    if (variant) group.variant = variant;
    if (!helperFields.hidden && coordinators.value) group.coordinators = Number(coordinators.value);
    if (!helperFields.hidden && votes.value) group.votes = Number(votes.value);
    const limits = Object.fromEntries(COUNTS.map((name) => [name, Number(counts[name].value)]));
    return [group, {...defaultRules(known(algorithm.value)), ...limits, fifo: order.value === 'fifo'}];
  }

  const submit = (event) => {
    event.preventDefault();
    onStart(...read());
  };
  chosen(false);
  return el(
    'form',
    {class: 'setup card', on: {submit}},
    el(
      'div',
      {class: 'setup-column'},
      el('div', {class: 'setup-pair wide-first'}, field('Algorithm', algorithm), field('n', n)),
      about,
      helperFields,
      variants,
    ),
    el(
      'div',
      {class: 'setup-column'},
      orderField,
      el(
        'fieldset',
        {class: 'setup-faults'},
        el('legend', {}, 'At most this many, in the whole run'),
        COUNTS.map((name) => field(COUNT_WORDS[name], counts[name])),
      ),
      el(
        'p',
        {class: 'setup-start'},
        el('button', {type: 'submit', class: 'primary'}, 'Start'),
        el('span', {class: 'muted'}, 'A new group, from the first step.'),
      ),
    ),
  );
}
