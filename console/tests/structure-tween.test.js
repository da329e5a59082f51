import assert from 'node:assert/strict';
import test from 'node:test';

import {between, ease, play} from '../structure/tween.js';

const node = {key: 'p0', x: 0, y: 0, opacity: 1};

test('what is in both drawings moves', () => {
  const [half] = between([node], [{...node, x: 10, label: 'new'}], 0.5);
  assert.equal(half.x, 5);
  assert.equal(half.label, 'new', 'what is no number changes at once');
});

test('a new message comes from its sender, a delivered one goes to its receiver', () => {
  const message = {key: 'm1', x: 50, y: 0, opacity: 1, source: {x: 0, y: 0}, target: {x: 100, y: 0}};
  const [coming] = between([], [message], 0.5);
  assert.deepEqual([coming.x, coming.opacity], [25, 1]);
  const [leaving] = between([message], [], 0.5);
  assert.deepEqual([leaving.x, leaving.opacity, leaving.leaving], [75, 1, true]);
});

test('without source and target an item fades', () => {
  assert.equal(between([], [node], 0.25)[0].opacity, 0.25);
  assert.equal(between([node], [], 0.25)[0].opacity, 0.75);
});

test('the end is exactly the new drawing', () => {
  const after = [{...node, x: 10}];
  assert.equal(between([node, {...node, key: 'gone'}], after, 1), after);
  assert.equal(ease(0), 0);
  assert.equal(ease(1), 1);
});

test('frames are shown until the time is over, and the movement can be ended', () => {
  let time = 0;
  const frames = [];
  const shown = [];
  const clock = {now: () => time, frame: (tick) => frames.push(tick), cancel: () => frames.splice(0), duration: 100};
  play([node], [{...node, x: 10}], (items) => shown.push(items[0].x), clock);
  for (time of [50, 100]) frames.shift()();
  assert.deepEqual(shown, [0, 5, 10]);
  assert.equal(frames.length, 0);
  time = 0;
  play([node], [{...node, x: 10}], () => {}, clock)();
  assert.equal(frames.length, 0);
});

test('who wants no motion sees only the end', () => {
  const shown = [];
  play([node], [{...node, x: 10}], (items) => shown.push(items[0].x), {still: true, frame: () => assert.fail()});
  assert.deepEqual(shown, [10]);
});
