import assert from 'node:assert/strict';
import test from 'node:test';

import {actor, dueReports, key, same, words} from '../hand/action.js';
import {bests, solved} from '../hand/best.js';
import {BadLink} from '../hand/codec.js';
import {command, moved} from '../hand/keys.js';
import {look, news, stepsToBreak} from '../hand/lamp.js';
import {cell, mood, moodWord, table} from '../hand/picture.js';
import {allowedText, compactRules, defaultRules, handAddress, readAddress} from '../hand/rules.js';
import {brokenProperty, distanceText, goalText, sentence} from '../hand/sentence.js';
import {newTree, step} from '../hand/tree.js';
import {parse} from '../lib/route.js';

test('actions are the same whatever the order of their fields', () => {
  assert.ok(same({forge: {from: 0, to: 1, like: 2}}, {forge: {like: 2, to: 1, from: 0}}));
  assert.notEqual(key({deliver: {message: 1}}), key({drop: {message: 1}}));
  assert.equal(words({user: {process: 1, wish: {append: 65}}}), 'append 1 65');
  assert.equal(words({recover: {process: 2, memory: false}}), 'recover 2 without-memory');
});

test('a paused process does nothing, but it can crash', () => {
  const pending = [{id: 3, from: 0, to: 2}];
  assert.equal(actor({deliver: {message: 3}}, pending), 2);
  assert.equal(actor({drop: {message: 3}}, pending), null, 'the network is not paused');
  assert.equal(actor({suspect: {by: 1, of: 2}}, pending), 1);
  assert.equal(actor({crash: {process: 2}}, pending), null);
});

test('the reports of detectors that are due are the true ones', () => {
  const processes = [
    {id: 0, up: true},
    {id: 1, up: true},
    {id: 2, up: false},
  ];
  const actions = [
    {suspect: {by: 0, of: 2}},
    {suspect: {by: 0, of: 1}},
    {trust: {by: 1, of: 0}},
    {trust: {by: 1, of: 2}},
    {crash: {process: 0}},
  ];
  assert.deepEqual(dueReports(actions, processes), [actions[0], actions[2]]);
});

test('each kind of part has its text', () => {
  const texts = [
    [{kind: 'field', value: 'Waiting'}, 'Waiting'],
    [{kind: 'field', value: false}, 'no'],
    [{kind: 'field', value: null}, '–'],
    [{kind: 'pointer', to: 2}, '→ P2'],
    [{kind: 'pointer', to: null}, '–'],
    [{kind: 'set', of: [0, 2]}, '{0, 2}'],
    [{kind: 'set', of: []}, '∅'],
    [{kind: 'queue', of: [{process: 1, stamp: 4}, {process: 2}]}, 'P1@4 ‹ P2'],
    [
      {
        kind: 'numbers',
        of: [
          [0, 3],
          [1, 0],
        ],
      },
      '[3 0]',
    ],
    [
      {
        kind: 'numbers',
        of: [
          [1, 3],
          [2, 0],
        ],
      },
      'P1: 3, P2: 0',
    ],
    [{kind: 'token', fence: 4, carries: [{name: 'due', kind: 'queue', of: [{process: 1}]}]}, 'fence 4 · due P1'],
  ];
  for (const [part, text] of texts) assert.equal(cell({name: 'x', ...part}).text, text);
});

test('the table has a row for each name, in the order of the paper, and marks what changed', () => {
  const client = (value) => ({
    picture: [
      {name: 'state', kind: 'field', value},
      {name: 'fence', kind: 'field', value: 0},
    ],
  });
  const helper = {
    picture: [
      {name: 'state', kind: 'field', value: 'Up'},
      {name: 'vote', kind: 'pointer', to: 1},
      {name: 'fence', kind: 'field', value: 0},
    ],
  };
  const rows = table([client('Waiting'), helper], [client('Idle'), helper]);
  assert.deepEqual(
    rows.map(({name}) => name),
    ['state', 'vote', 'fence'],
  );
  assert.deepEqual(
    rows[0].cells.map(({changed}) => changed),
    [true, false],
  );
  assert.equal(rows[1].cells[0].text, '');
  assert.ok(
    table([client('Idle')]).every(({cells}) => cells.every(({changed}) => !changed)),
    'the start changes nothing',
  );
});

test('the mood of a process', () => {
  const process = {id: 1, up: true, ready: true, waiting: false, inside: false, leader: null};
  assert.equal(mood(process), 'idle');
  assert.equal(mood({...process, waiting: true}), 'waiting');
  assert.equal(mood({...process, leader: 1}), 'leads');
  assert.equal(mood({...process, leader: 0}), 'idle');
  assert.equal(mood({...process, up: false, inside: true}), 'down');
  assert.equal(moodWord({...process, ready: false, picture: []}), 'catching up');
  assert.equal(moodWord({...process, picture: []}), 'idle');
  const detector = (of, up = true) => moodWord({...process, up, picture: [{name: 'suspects', kind: 'set', of}]});
  assert.deepEqual([detector([]), detector([0, 2]), detector([0], false)], ['trusts all', 'suspects P0, P2', 'down']);
});

const algorithms = [
  {name: 'lamport', assumes: ['links keep the order of messages']},
  {name: 'maekawa', assumes: ['no losses']},
];

test('the address of a run is read as it was written', () => {
  const tree = step(step(newTree(), {user: {process: 0, wish: 'request'}}), {deliver: {message: 0}});
  const spec = {algorithm: 'maekawa', n: 7, variant: 'grid'};
  const rules = {...defaultRules(algorithms[1]), fifo: true, losses: 0};
  const hash = handAddress({spec, rules, tree, paused: new Set([2, 1]), algorithm: algorithms[1]});
  assert.ok(hash.endsWith('&a=q0.d0&p=1%2C2&v=1'), hash);
  assert.deepEqual(readAddress(parse(hash).query, algorithms), {spec, rules, tree, paused: [1, 2]});
  assert.equal(compactRules(defaultRules(algorithms[0]), algorithms[0]), '');
  assert.equal(defaultRules(algorithms[0]).fifo, true, "the order of links is the algorithm's own");
});

test('the spec of a run can be opened by hand', () => {
  const spec = JSON.stringify({algorithm: 'maekawa', n: 3, seed: 7, load: 'all', loss: 0.1});
  assert.deepEqual(readAddress({spec}, algorithms).spec, {algorithm: 'maekawa', n: 3});
});

test('an address that no page has made is refused with a sentence', () => {
  const good = JSON.stringify({algorithm: 'maekawa', n: 3});
  const bad = [
    {v: '2'},
    {spec: '{'},
    {spec: '[]'},
    {spec: 'null'},
    {spec: '{}'},
    {spec: '{"algorithm":3}'},
    {spec: '{"algorithm":"<b>"}'},
    {spec: '{"algorithm":"maekawa","n":17}'},
    {spec: '{"algorithm":"maekawa","n":1e9}'},
    {spec: '{"algorithm":"maekawa","n":2.5}'},
    {spec: good, rules: '7'},
    {spec: good, rules: '{"fifo":1}'},
    {spec: good, rules: '{"losses":-1}'},
    {spec: good, rules: '{"x":1}'},
    {spec: good, a: 'zz'},
    {spec: good, p: 'x'},
  ];
  for (const query of bad) {
    const sentence = (error) => error instanceof BadLink && /^[A-Z].*\.$/.test(error.message);
    assert.throws(() => readAddress(query, algorithms), sentence, JSON.stringify(query));
  }
});

test('keys', () => {
  const free = {inField: false, onButton: false};
  assert.deepEqual(command({key: '3'}, free), {choose: 2});
  assert.deepEqual(command({key: 'Backspace'}, free), {go: 'back'});
  assert.equal(command({key: 'Backspace'}, {...free, inField: true}), null);
  assert.equal(command({key: 'Enter'}, {...free, onButton: true}), null, 'a button takes its own Enter');
  assert.equal(command({key: 'c', ctrlKey: true}, free), null, 'copying text stays copying text');
  const messages = [{id: 4}, {id: 7}];
  assert.equal(moved(messages, null, 1), 4);
  assert.equal(moved(messages, null, -1), 7);
  assert.equal(moved(messages, 7, 1), 7);
  assert.equal(moved([], 7, 1), null);
});

test('the best result is kept, also where nothing can be kept', () => {
  const kept = new Map();
  const storage = {getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value)};
  assert.ok(solved('deadlock', 9, storage));
  assert.ok(!solved('deadlock', 9, storage));
  assert.ok(solved('deadlock', 6, storage));
  assert.equal(bests(storage).get('deadlock'), 6);
  kept.set('baton-challenges', '{"a":"<b>","b":-1,"c":3}');
  assert.deepEqual([...bests(storage)], [['c', 3]]);
  kept.set('baton-challenges', 'null');
  assert.equal(bests(storage).size, 0);
  const refusing = {
    getItem: () => {
      throw new Error('no');
    },
    setItem: () => {
      throw new Error('no');
    },
  };
  assert.equal(bests(refusing).size, 0);
  assert.ok(solved('deadlock', 9, refusing));
  assert.ok(solved('deadlock', 9, null));
});

test('a lamp is red for a broken promise, and amber for what was never promised', () => {
  const tone = (state, promised) => look({state, promised}).tone;
  assert.equal(tone('holds', true), 'good');
  assert.deepEqual(look({state: 'holds', promised: false}), {tone: 'off', word: 'not promised, not violated so far'});
  assert.equal(tone('violated', true), 'bad');
  assert.equal(tone('stuck', true), 'bad');
  assert.equal(tone('violated', false), 'warn');
  assert.equal(tone('stuck', false), 'warn');
  assert.equal(tone('not checked', true), 'off');
  assert.equal(tone('a new state', true), 'off');
});

test('a screen reader hears what changed, and nothing at the start', () => {
  const lamp = (state, detail = '') => ({property: 'safety', promised: true, state, detail});
  assert.equal(news([], [lamp('holds')]), '');
  assert.equal(news([], [lamp('violated', 'P0 and P1')]), 'safety: violated, P0 and P1.', 'a link may show a violation at once');
  assert.equal(news([lamp('holds')], [lamp('violated', 'P0 and P1')]), 'safety: violated, P0 and P1.');
  assert.equal(news([lamp('violated')], [lamp('holds')]), 'safety: holds.');
  assert.equal(news([lamp('holds')], [lamp('holds')]), '');
});

test('the answer of the checker is a sentence', () => {
  const said = (answer) => distanceText({property: 'safety', states: 12, steps: null, ...answer});
  assert.equal(said({result: 'violated', steps: 3}), '3 steps from here to a violation of safety. The checker looked at 12 states.');
  assert.equal(said({result: 'violated', steps: 1}), '1 step from here to a violation of safety. The checker looked at 12 states.');
  assert.equal(said({result: 'violated', steps: 0}), 'Safety is violated here.');
  assert.equal(said({result: 'violated', steps: 2, property: 'deadlock'}), '2 steps from here to a group that waits for ever. The checker looked at 12 states.');
  assert.equal(said({result: 'violated', steps: 0, property: 'deadlock'}), 'They wait for ever here: liveness is broken.');
  assert.equal(said({result: 'holds', text: 'no violation ahead'}), 'No violation ahead. The checker looked at 12 states.');
  assert.equal(said({result: 'limit', text: 'the checker cannot tell: time', states: 0}), 'The checker cannot tell: time.');
  assert.equal(sentence('no such algorithm'), 'No such algorithm.');
  assert.equal(sentence('Why?'), 'Why?');
});

test('a challenge asks to break a property, and a deadlock breaks liveness', () => {
  assert.deepEqual(['safety', 'deadlock'].map(goalText), ['Break safety', 'Make them wait for ever (break liveness)']);
  assert.deepEqual(['order', 'deadlock'].map(brokenProperty), ['order', 'liveness']);
});

test('what a challenge allows is told in words', () => {
  assert.equal(allowedText({crashes: 1, recoveries: 1, losses: 0, fifo: null}), '1 crash and 1 recovery');
  assert.equal(allowedText({fifo: false, mistakes: 2}), '2 wrong suspicions and messages that overtake each other');
  assert.equal(allowedText({}), '');
});

test('a challenge is solved at the first violation, also if the run goes on', () => {
  const entry = (...properties) => ({violations: properties.map((property) => ({property, detail: ''}))});
  const violated = {
    lamps: [{property: 'safety', state: 'violated'}],
    log: [entry(), entry('fence'), entry('safety'), entry('safety'), entry()],
  };
  assert.equal(stepsToBreak(violated, 'safety', 4), 2);
  const stuck = {lamps: [{property: 'liveness', state: 'stuck'}], log: [entry(), entry(), entry()]};
  assert.equal(stepsToBreak(stuck, 'liveness', 2), 2);
  assert.equal(stepsToBreak({lamps: [{property: 'safety', state: 'holds'}], log: [entry()]}, 'safety', 0), null);
  assert.equal(stepsToBreak(violated, 'order', 4), null);
});
