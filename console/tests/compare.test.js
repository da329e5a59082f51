import assert from 'node:assert/strict';
import {test} from 'node:test';

import {apart, colourOf, costsInWords, hiddenAtFirst, largest, scale, series, specOf} from '../compare/series.js';
import {survives, trial} from '../compare/survives.js';

const row = (algorithm, n, value, theory, more = {}) => ({algorithm, variant: null, n, load: 'all', messages_per_entry: value, theory: theory ? {messages_per_entry: theory} : {}, ...more});

test('rows become series by algorithm and variant, in the order of n, without what was refused', () => {
  const rows = [row('a', 5, 8), row('a', 3, 4), row('a', 4, null), row('b', 3, 2, null, {refused: 'no square'}), row('a', 3, 1, null, {variant: 'x'}), row('a', 3, 9, null, {load: 'solo'})];
  const found = series(rows, 'messages', 'all');
  assert.deepEqual(found.map(({name, points}) => [name, points.map(({n, value}) => [n, value])]), [['a', [[3, 4], [5, 8]]], ['a (x)', [[3, 1]]]]);
});

test('a point that differs from an exact formula is marked', () => {
  const differs = (value, kind) => series([row('a', 3, value, {kind, value: 8, formula: 'f'})], 'messages', 'all')[0].points[0].differs;
  assert.deepEqual([differs(8, 'exact'), differs(8.1, 'exact'), differs(8.3, 'mean'), differs(9, 'mean'), differs(3, 'bound')], [false, true, false, true, false]);
});

test('scales have round ticks and reach both ends', () => {
  const linear = scale([0, 47], [300, 0]);
  assert.deepEqual(linear.ticks, [0, 10, 20, 30, 40]);
  assert.deepEqual([linear.at(0), linear.at(47)], [300, 0]);
  const log = scale([3, 100], [0, 100], true);
  assert.deepEqual(log.ticks, [5, 10, 20, 50, 100]);
  assert.ok(Math.abs(log.at(3)) < 1e-9 && Math.abs(log.at(100) - 100) < 1e-9);
});

test('labels keep their distance and stay in the field', () => {
  const labels = apart([{y: 10}, {y: 11}, {y: 99}, {y: 100}], 15, 5, 100);
  const ys = labels.map(({y}) => y).sort((a, b) => a - b);
  for (let at = 1; at < ys.length; at += 1) assert.ok(ys[at] - ys[at - 1] >= 15 - 1e-9);
  assert.ok(ys[0] >= 5 && ys.at(-1) <= 100);
});

test('colours are given by place, and again after twelve', () => {
  assert.deepEqual([...colourOf(['a', 'b', 'a'])], [['a', 0], ['b', 1]]);
  assert.deepEqual([...colourOf(['a', 'a (x)', 'b'])], [['a', 0], ['a (x)', 2], ['b', 1]]);
});

test('what an algorithm survives follows from its assumptions, and the trial breaks them on purpose', () => {
  const fragile = {name: 'a', assumes: ['no message is lost', 'links keep the order of messages', 'no process crashes']};
  assert.deepEqual(['order', 'loss', 'duplicate', 'crash'].map((fault) => survives(fragile, fault)), [false, false, true, false]);
  assert.equal(trial(fragile, 'loss')['ignore-assumptions'], true);
  assert.ok(!('ignore-assumptions' in trial(fragile, 'duplicate')));
});

test('the table shows the largest n that an algorithm allows, under each load, and leads to a run of that size', () => {
  const rows = [row('a', 3, 4), row('a', 9, 16), row('a', 16, null, null, {refused: 'no square'}), row('a', 5, 8), row('a', 5, 7, null, {load: 'solo-random'}), row('a', 9, 1, null, {variant: 'x'})];
  const found = largest(rows, 'a');
  assert.deepEqual(found.map(({load, n, messages_per_entry: value}) => [load, n, value]), [['solo-random', 5, 7], ['all', 9, 16]]);
  assert.deepEqual(found.map(specOf), [{algorithm: 'a', n: 5, load: 'solo-random', entries: 10}, {algorithm: 'a', n: 9, entries: 18}]);
  assert.deepEqual(largest(rows, 'b'), []);
});

test('the sentence above the table names only the loads that were measured', () => {
  assert.equal(costsInWords([]), 'The costs are being measured.');
  assert.match(costsInWords([row('a', 3, 4), row('a', 9, 16)]), /^Costs at n = 9, .*: all want to enter\. /);
  assert.match(costsInWords([row('a', 3, 4), row('a', 3, 4, null, {load: 'solo-random'})]), /: one request at a time · all want to enter\. /);
});

test('a few well-known algorithms are drawn at first, and all where none of them is there', () => {
  assert.deepEqual([...hiddenAtFirst(['lamport', 'singhal', 'maekawa', 'maekawa (grid)'])], ['singhal', 'maekawa (grid)']);
  assert.equal(hiddenAtFirst(['singhal']).size, 0);
});
