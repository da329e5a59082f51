// Group and rules of a run by hand: their defaults, and their form in the address. Pure functions.

import {list, plural} from '../lib/format.js';
import {address} from '../lib/route.js';
import {BadLink, VERSION, decodeTree, encodeTree} from './codec.js';
import {newTree} from './tree.js';

export const N_MAX = 16;

/** The faults that are allowed if nobody says otherwise. The lab is for trying, so there are plenty. */
const GENEROUS = {losses: 100, duplicates: 100, crashes: 100, recoveries: 100, mistakes: 100, app_messages: 100};
export const COUNTS = Object.keys(GENEROUS);
const COUNT_MAX = 1000;
/** A variant may name the voting set of every process. */
const TEXT_MAX = 5000;

/** The rules for an algorithm: its own order of links, and many faults. */
export function defaultRules(algorithm) {
  return {fifo: needsFifo(algorithm), ...GENEROUS};
}

/** Whether the algorithm assumes that links keep the order of messages. */
export function needsFifo(algorithm) {
  return (algorithm?.assumes ?? []).some((assumption) => /\bfifo\b|keep the order/i.test(assumption));
}

const FAULTS = {
  losses: ['lost message', 'lost messages'],
  duplicates: ['copied message', 'copied messages'],
  crashes: ['crash', 'crashes'],
  recoveries: ['recovery', 'recoveries'],
  mistakes: ['wrong suspicion', 'wrong suspicions'],
  app_messages: ['application message', 'application messages'],
};

/** The faults that the rules allow, in words: `1 crash and 1 recovery`. Empty if there are none. */
export function allowedText(rules) {
  const counted = Object.entries(FAULTS).filter(([name]) => rules[name] > 0);
  const words = counted.map(([name, [one, many]]) => plural(rules[name], one, many));
  return list(rules.fifo === false ? [...words, 'messages that overtake each other'] : words);
}

/** Only what differs from the defaults, for a short address. */
export function compactRules(rules, algorithm) {
  const usual = defaultRules(algorithm);
  const differs = Object.entries(rules).filter(([name, value]) => usual[name] !== value);
  return differs.length === 0 ? '' : JSON.stringify(Object.fromEntries(differs));
}

/** The group and the rules in the parameters of an address, or a `BadLink` with a sentence. */
export function readAddress(query, algorithms) {
  if (query.v !== undefined && query.v !== VERSION) {
    throw new BadLink(`This link is of version ${query.v.slice(0, 20)}; this lab reads version ${VERSION}.`);
  }
  const spec = query.spec === undefined ? null : readSpec(query.spec);
  const algorithm = algorithms.find((candidate) => candidate.name === spec?.algorithm);
  if (spec && !algorithm) throw new BadLink(`There is no algorithm \`${spec.algorithm}\` in this lab.`);
  return {
    spec,
    rules: spec && {...defaultRules(algorithm), ...(query.rules === undefined ? {} : readRules(query.rules))},
    tree: query.a === undefined ? newTree() : decodeTree(query.a),
    paused: query.p === undefined ? [] : readPaused(query.p),
  };
}

function readSpec(text) {
  const spec = object(text, 'group');
  const known = {algorithm: 'string', n: 'number', variant: 'string', coordinators: 'number', votes: 'number'};
  // A spec of a run has more: what belongs to a run is not of interest by hand.
  const kept = Object.entries(spec).filter(([name, value]) => Object.hasOwn(known, name) && value !== null);
  for (const [name, value] of kept) {
    const fits = typeof value === known[name] && (typeof value === 'string' ? value.length <= TEXT_MAX : count(value, COUNT_MAX));
    if (!fits) throw new BadLink(`The link is damaged: \`${name}\` of its group has no usable value.`);
  }
  const read = Object.fromEntries(kept);
  if (read.algorithm === undefined) throw new BadLink('The link is damaged: its group names no algorithm.');
  if (read.n !== undefined && (read.n < 1 || read.n > N_MAX)) {
    throw new BadLink(`A group by hand has 1 to ${N_MAX} processes; the link asks for ${read.n}.`);
  }
  return read;
}

function readRules(text) {
  const rules = object(text, 'rules');
  for (const [name, value] of Object.entries(rules)) {
    const fits =
      name === 'fifo' || name === 'recover_when_told'
        ? typeof value === 'boolean'
        : name === 'memory'
          ? Array.isArray(value) && value.every((one) => typeof one === 'boolean')
          : COUNTS.includes(name) && count(value, COUNT_MAX);
    if (!fits) throw new BadLink(`The link is damaged: \`${name.slice(0, 40)}\` of its rules has no usable value.`);
  }
  return rules;
}

function readPaused(text) {
  if (!/^\d{1,3}(,\d{1,3})*$/.test(text)) throw new BadLink('The link is damaged: its paused processes are no numbers.');
  return text.split(',').map(Number);
}

function object(text, what) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new BadLink(`The link is damaged: its ${what} is no JSON.`);
  }
  if (!value || typeof value !== 'object' || Array.isArray(value)) throw new BadLink(`The link is damaged: its ${what} is no JSON object.`);
  return value;
}

const count = (value, max) => Number.isInteger(value) && value >= 0 && value <= max;

/** The address of a run by hand. The version comes last: some programs cut signs such as `)` off the end of a link. */
export function handAddress({spec, rules, tree, paused, algorithm, challenge}) {
  const run = {a: encodeTree(tree), p: [...paused].sort((a, b) => a - b).join(','), v: VERSION};
  if (challenge) return address('challenge', [challenge], run);
  return address('hand', [], {spec: JSON.stringify(spec), rules: compactRules(rules, algorithm), ...run});
}
