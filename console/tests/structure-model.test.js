import assert from 'node:assert/strict';
import test from 'node:test';

import {chips, legend, model, tone} from '../structure/model.js';

const box = {width: 640, height: 480};
const process = (id, more = {}) => ({
  id,
  role: 'client',
  up: true,
  ready: true,
  waiting: false,
  inside: false,
  leader: null,
  suspects: [],
  picture: [],
  ...more,
});
const message = (id, from, to, more = {}) => ({
  id,
  original: id,
  from,
  to,
  kind: 'REQUEST',
  text: 'REQUEST',
  app: false,
  blocked: false,
  ...more,
});
const state = (processes, more = {}) => ({structure: {shape: 'complete'}, processes, pending: [], ...more});
const find = (items, key) => items.find((item) => item.key === key);

test('keys are unique, whatever is drawn', () => {
  const pointer = (name, to) => ({name, kind: 'pointer', to});
  const processes = [0, 1, 2].map((id) =>
    process(id, {
      waiting: true,
      picture: [
        pointer('father', (id + 1) % 3),
        pointer('next', 0),
        {name: 'request set', kind: 'set', of: [0, 1]},
        {name: 'token', kind: 'token', fence: 1, carries: []},
      ],
    }),
  );
  const pending = [message(0, 0, 1), message(1, 0, 1), message(2, 1, 0)];
  const structure = {
    shape: 'complete',
    quorums: [
      [0, 1],
      [1, 2],
      [2, 0],
    ],
  };
  const items = model({structure, processes, pending}, box, {selected: 0, paused: new Set()});
  assert.equal(new Set(items.map(({key}) => key)).size, items.length);
  for (const type of ['node', 'message', 'link', 'pointer', 'asked', 'set', 'token'])
    assert.ok(
      items.some((item) => item.type === type),
      type,
    );
});

test('a message stands between its processes, and its dot is on no process', () => {
  const processes = Array.from({length: 7}, (_, id) => process(id));
  const quorums = Array.from({length: 7}, (_, i) => [i, (i + 1) % 7, (i + 3) % 7]);
  const pending = processes.flatMap(({id: from}) =>
    processes.filter(({id}) => id !== from).map(({id: to}) => message(from * 7 + to, from, to)),
  );
  for (const shape of ['complete', 'plane', 'grid']) {
    const items = model(state(processes, {structure: {shape, quorums}, pending}), box);
    const nodes = items.filter(({type}) => type === 'node');
    for (const dot of items.filter(({type}) => type === 'message')) {
      for (const node of nodes) assert.ok(Math.hypot(dot.x - node.x, dot.y - node.y) > node.radius, `${shape}: ${dot.text} on P${node.id}`);
    }
  }
});

test('the token and its queue are drawn at their process', () => {
  const due = {name: 'due', kind: 'queue', of: [1, 2, 3, 4, 5].map((id) => ({process: id}))};
  const items = model(state([process(0, {picture: [{name: 'token', kind: 'token', fence: 3, carries: [due]}]}), process(1)]), box);
  const token = find(items, 'token 0');
  const node = find(items, 'p0');
  assert.ok(Math.hypot(token.x - node.x, token.y - node.y) < 2 * node.radius);
  assert.deepEqual(token.queue.chips, ['1', '2', '3', '+2']);
  assert.deepEqual(chips([{process: 1}, {process: 2}]), ['1', '2']);
});

test('pointers of a ring are the ring itself, others are arrows', () => {
  const next = [{name: 'next', kind: 'pointer', to: 1}];
  const ring = {shape: 'ring', ring: [0, 1, 2]};
  const processes = [process(0, {picture: next}), process(1), process(2)];
  assert.ok(!model(state(processes, {structure: ring}), box).some(({type}) => type === 'pointer'));
  assert.ok(find(model(state(processes), box), 'pointer next 0'));
  const self = [
    process(0, {picture: [{name: 'holder', kind: 'pointer', to: 0}]}),
    process(1, {picture: [{name: 'holder', kind: 'pointer', to: 9}]}),
  ];
  assert.ok(!model(state(self), box).some(({type}) => type === 'pointer'), 'neither to itself nor to nobody');
});

test('the voting set of a waiting process is shown, and who has voted for the selected one', () => {
  const picture = [
    {name: 'request set', kind: 'set', of: [0, 1, 2]},
    {name: 'granted', kind: 'set', of: [0, 1]},
  ];
  const processes = [process(0, {waiting: true, picture}), process(1), process(2)];
  const structure = {shape: 'complete', quorums: [[0, 1, 2], [1], [2]]};
  const items = model(state(processes, {structure}), box, {selected: 0});
  assert.deepEqual(
    items.filter(({type}) => type === 'set').map(({key}) => key),
    ['set 0'],
  );
  assert.equal(find(items, 'asked 0 1').answered, true);
  assert.equal(find(items, 'asked 0 2').answered, false);
  assert.equal(find(items, 'asked 0 0'), undefined);
});

test('colours of messages mean the same everywhere', () => {
  assert.equal(tone({kind: 'REQUEST'}), 'ask');
  assert.equal(tone({kind: 'TOKEN'}), 'token');
  assert.equal(tone({kind: 'REQUEST', app: true}), 'app');
  assert.equal(tone({kind: 'NEWS'}), 'other');
});

test('the legend explains what is there, and each sign once', () => {
  const items = model(
    state([process(0), process(1)], {pending: [message(0, 0, 1), message(1, 1, 0, {kind: 'TOKEN'}), message(2, 1, 0)]}),
    box,
  );
  const texts = legend(items).map(({text}) => text);
  assert.deepEqual(texts, ['token', 'asks']);
});
