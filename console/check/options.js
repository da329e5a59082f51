// The request of a check, from the fields of its form. Pure functions.

import {defaultRules, handAddress} from '../hand/rules.js';
import {newTree, step} from '../hand/tree.js';

const COUNTS = ['entries', 'crash', 'recover', 'loss', 'duplicate', 'suspect', 'timers'];

/** `{spec, options}`; empty fields and zero faults are left out, except where zero means something. */
export function request(values) {
  const spec = {algorithm: values.algorithm};
  if (values.n !== '') spec.n = Number(values.n);
  for (const name of ['variant']) if (values[name]) spec[name] = values[name];
  for (const name of ['coordinators', 'votes']) if (values[name]) spec[name] = Number(values[name]);
  const options = {};
  for (const name of COUNTS) {
    const text = values[name] ?? '';
    if (text === '') continue;
    const isUsual = Number(text) === 0 && ['crash', 'loss', 'duplicate', 'suspect'].includes(name);
    if (!isUsual) options[name] = Number(text);
  }
  for (const name of ['order', 'property']) if (values[name]) options[name] = values[name];
  if (values.ignore_assumptions) options.ignore_assumptions = true;
  return {spec, options};
}

/** The result in one sentence: `{tone, text, detail}`. */
export function verdict({result, property, detail, steps, states, properties = [], unsettled = []}) {
  const after = `in ${steps} step${steps === 1 ? '' : 's'}`;
  if (result === 'violated') return {tone: 'bad', text: property === 'deadlock' ? `Deadlock ${after}` : `${capital(property)} is violated ${after}`, detail};
  if (result === 'holds') {
    const open = unsettled.length ? `No verdict within the limits on ${unsettled.join(', ')}.` : null;
    return {tone: 'good', text: `Holds in every state: ${properties.join(', ')}`, detail: open};
  }
  return {tone: 'warn', text: 'No verdict within the limits', detail: detail ?? `${states.toLocaleString('en')} states were looked at, and there are more`};
}

/** The address at which the steps of a counterexample are repeated by hand. */
export function byHand(spec, actions, algorithm) {
  const tree = actions.reduce((grown, action) => step(grown, action), newTree());
  return handAddress({spec, rules: defaultRules(algorithm), tree, paused: [], algorithm});
}

const capital = (text = '') => text.charAt(0).toUpperCase() + text.slice(1);
