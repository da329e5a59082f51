import assert from 'node:assert/strict';
import {test} from 'node:test';

import {layout} from '../diagram/layout.js';
import {Levels, mergeArrows, mergeBars, mergeMarks, strokes} from '../diagram/merge.js';
import {Spans} from '../diagram/spans.js';

const arrow = (tail, head, from, to, seq = tail) => ({tail, head, x0: tail, x1: head, from, to, seq, last: seq + 1});
const bar = (x0, x1, lane, kind = 'inside') => ({x0, x1, lane, seq: x0, last: x1, item: {kind, label: `fence ${x0}`}});
const mark = (x, lane, kind = 'suspect') => ({x, x0: x, x1: x, lane, seq: x, item: {kind, text: kind}});

test('upright arrows of one cell become the lanes that they cover', () => {
  const merged = mergeArrows([arrow(0, 1, 0, 1), arrow(1, 2, 3, 1), arrow(2, 3, 5, 4), arrow(11, 12, 0, 1)], 10);
  assert.deepEqual(merged.map(({from, to, count, upright}) => [from, to, count ?? 1, upright]), [[0, 3, 2, true], [4, 5, 1, true], [0, 1, 1, true]]);
  const again = mergeArrows(merged, 20);
  assert.deepEqual(again.map(({from, to, count}) => [from, to, count]), [[0, 3, 3], [4, 5, undefined]]);
});

test('sloped arrows become one only if both of their ends fall together', () => {
  const merged = mergeArrows([arrow(0, 31, 0, 1), arrow(1, 32, 0, 1), arrow(2, 33, 1, 0), arrow(3, 45, 0, 1)], 10);
  assert.deepEqual(merged.map(({tail, head, count}) => [tail, head, count ?? 1]), [[0, 31, 2], [2, 33, 1], [3, 45, 1]]);
  assert.deepEqual([merged[0].seq, merged[0].last], [0, 2], 'it has the records of both');
});

test('bars with less than a cell between them become one without a label, unless both are wide', () => {
  const merged = mergeBars([bar(0, 2, 0), bar(1, 2, 1), bar(3, 4, 0, 'waiting'), bar(5, 9, 0), bar(30, 31, 0)], 10);
  assert.deepEqual(merged.map(({x0, x1, lane, item}) => [x0, x1, lane, item.kind, item.label]), [
    [0, 9, 0, 'inside', ''], [1, 2, 1, 'inside', 'fence 1'], [3, 4, 0, 'waiting', 'fence 3'], [30, 31, 0, 'inside', 'fence 30'],
  ]);
  assert.equal(mergeBars([bar(0, 100, 0), bar(101, 200, 0)], 10).length, 2);
});

test('of the marks of one process and one kind in one cell the first remains', () => {
  const merged = mergeMarks([mark(0, 0), mark(1, 0), mark(2, 0, 'crash'), mark(3, 1), mark(12, 0)], 10);
  assert.deepEqual(merged.map(({x, lane, item}) => [x, lane, item.kind]), [[0, 0, 'suspect'], [2, 0, 'crash'], [3, 1, 'suspect'], [12, 0, 'suspect']]);
});

test('a few items are never merged', () => {
  const few = new Levels(new Spans(Array.from({length: 400}, (_, at) => arrow(at, at + 1, 0, 1))), 400, mergeArrows);
  assert.equal(few.at(1000).items.length, 400);
});

/** Every process asks every other one, again and again, for `rounds` rounds of 10 T; a message takes 1 T. */
function busy(processes, rounds) {
  const [arrows, bars, marks] = [[], [], []];
  let seq = 0;
  const at = (t) => ({seq: seq++, t});
  for (let round = 0; round < rounds; round += 1) {
    const from = round % processes;
    bars.push({process: from, kind: 'waiting', label: '', from: at(10 * round), to: at(10 * round + 2)});
    for (let to = 0; to < processes; to += 1) {
      if (to === from) continue;
      arrows.push({msg: seq, kind: 'REQUEST', label: 'REQUEST', from, to, start: at(10 * round), end: at(10 * round + 1), fate: round % 50 ? 'arrived' : {lost: 'loss'}});
      arrows.push({msg: seq, kind: 'REPLY', label: 'REPLY', from: to, to: from, start: at(10 * round + 1), end: at(10 * round + 2), fate: 'arrived'});
    }
    bars.push({process: from, kind: 'inside', label: 'fence', from: at(10 * round + 2), to: at(10 * round + 5)});
    marks.push({process: from, kind: 'suspect', text: 'suspects', ...at(10 * round + 6)});
  }
  const processList = Array.from({length: processes}, (_, id) => ({id, name: `P${id}`, role: 'client'}));
  return {title: 'busy', unit: 'T', processes: processList, moments: [], cycle: null, violations: [], records: seq, bars, arrows, marks};
}

/** What is drawn of the whole run in so many pixels. */
function drawn(plan, pixels, most = 800) {
  const k = pixels / plan.end;
  const window = {left: 0, right: plan.end, k, x: (position) => position * k, lanes: [-Infinity, Infinity], most};
  const arrows = plan.far.arrows.map(({kind, levels}) => ({kind, ...strokes(levels, window)}));
  const count = (name) => arrows.reduce((sum, one) => sum + one[name].length, 0);
  return {arrows, columns: count('columns'), bars: plan.far.bars.at(1 / k).items.length, marks: plan.far.marks.at(3 / k).items.length};
}

test('the whole of a run costs what its pixels need, not what its events are', () => {
  const [pixels, processes] = [200, 3];
  for (const spacing of ['time', 'order']) {
    for (const rounds of [4000, 8000]) {
      const plan = layout(busy(processes, rounds), spacing);
      assert.ok(plan.events.length > 50_000, `${plan.events.length}`);
      const {arrows, columns, bars, marks} = drawn(plan, pixels);
      const said = `${rounds} rounds by ${spacing}: ${columns} columns, ${bars} bars, ${marks} marks`;
      assert.equal(arrows.find(({kind}) => kind === 'message').lines.length, 0, 'every arrow is narrower than a pixel');
      // Two kinds of arrows; the lanes of one pixel that arrows cover hang together here.
      assert.ok(columns <= 2 * (pixels + 1), said);
      // Bars of two kinds with half a pixel each, marks with half of their width each.
      assert.ok(bars <= 2 * processes * 2 * pixels && marks <= 2 * processes * pixels, said);
    }
  }
});

test('a lost message is seen from any distance, and no arrow is left out', () => {
  const plan = layout(busy(9, 1700));
  const {arrows} = drawn(plan, 900);
  const told = (kind) => {
    const {lines, columns} = arrows.find((one) => one.kind === kind);
    return [...lines, ...columns].reduce((sum, {count}) => sum + (count ?? 1), 0);
  };
  assert.equal(told('lost'), plan.arrows.items.filter(({lost}) => lost).length);
  assert.equal(told('message') + told('lost'), plan.arrows.items.length);
});

test('of too many sloped lines a part is drawn, and panning does not exchange them', () => {
  const items = Array.from({length: 4000}, (_, at) => arrow(at, at + 500, at % 9, (at + 1) % 9));
  const levels = new Levels(new Spans(items), 4500, mergeArrows);
  const lines = (left, most) => strokes(levels, {left, right: left + 2000, k: 0.5, x: (position) => position / 2, lanes: [0, 8], most}).lines;
  assert.ok(lines(0, 800).length <= 800 && lines(0, 800).length > 300);
  const after = new Set(lines(100, 800));
  const both = lines(0, 800).filter(({x0}) => x0 >= 100);
  assert.ok(both.every((line) => after.has(line)));
  assert.ok(lines(0, 5000).length > 1500, 'all, if there is room');
});

test('arrows between lanes outside the window are left out', () => {
  const levels = new Levels(new Spans([arrow(0, 50, 0, 1), arrow(0, 50, 1, 5), arrow(0, 50, 6, 7)]), 100, mergeArrows);
  const {lines} = strokes(levels, {left: 0, right: 100, k: 1, x: (position) => position, lanes: [2, 4], most: 10});
  assert.deepEqual(lines.map(({from, to}) => [from, to]), [[1, 5]]);
});
