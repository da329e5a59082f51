// A small builder for faults: choose a kind, fill its fields, add. Or write faults as text.

import {button, el, field, fill, select} from '../lib/dom.js';
import {icon} from '../lib/icons.js';
import {KINDS, NAMES, halves, write} from './faults.js';

/** `clients()` is the number of processes now; `changed()` is called when the list changes. */
export function createFaultForm(initial, {clients, changed}) {
  let faults = [...initial];
  const chips = el('ul', {class: 'chips', 'aria-label': 'Faults of the run'});
  const fields = el('div', {class: 'fault-fields'});
  const problem = el('p', {class: 'bad', role: 'alert', hidden: true});
  const kind = select(Object.entries(KINDS).map(([value, {text}]) => ({value, text})), 'crash', () => showFields());
  const free = el('input', {type: 'text', placeholder: 'crash 1 @ 5', spellcheck: 'false', autocomplete: 'off', on: {keydown: (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    addFree();
  }}});
  let inputs = {};

  function showFields() {
    inputs = {};
    fill(fields, KINDS[kind.value].fields.map((name) => {
      const input = name === 'forgets' ? el('input', {type: 'checkbox'}) : el('input', {type: 'text', inputmode: name === 'groups' ? 'text' : 'decimal', value: guess(name), autocomplete: 'off'});
      inputs[name] = input;
      return field(NAMES[name], input);
    }));
  }

  const guess = (name) => ({process: '0', at: '5', lasts: '10', groups: halves(clients()), from: '0', to: '1'}[name] ?? '');

  function add(text) {
    faults.push(text);
    show();
    changed();
  }

  function addBuilt() {
    const values = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.type === 'checkbox' ? input.checked : input.value]));
    const {fault, error} = write(kind.value, values);
    problem.hidden = !error;
    fill(problem, error ?? '');
    if (fault) add(fault);
  }

  function addFree() {
    const text = free.value.trim();
    if (!text) return;
    free.value = '';
    add(text);
  }

  function show() {
    fill(chips, faults.map((fault, at) => el('li', {class: 'chip'}, el('code', {}, fault), button(icon('close'), () => {
      faults.splice(at, 1);
      show();
      changed();
    }, {class: 'tool', 'aria-label': `Remove the fault ${fault}`}))), faults.length === 0 && el('li', {class: 'muted'}, 'No faults.'));
  }

  showFields();
  show();
  const element = el('div', {class: 'faults'}, chips,
    el('div', {class: 'fault-builder'}, field('Kind of fault', kind), fields, button('Add', addBuilt, {'aria-label': 'Add this fault', class: 'button'})),
    problem,
    el('div', {class: 'fault-builder'}, field('Or as text', free), button('Add', addFree, {'aria-label': 'Add the fault that is written as text', class: 'button'})));
  return {
    element,
    get value() {
      return [...faults];
    },
    set value(given) {
      faults = [...given];
      show();
    },
  };
}
