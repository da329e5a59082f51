import assert from 'node:assert/strict';
import test from 'node:test';

import {
  actionsTo,
  back,
  branchOf,
  countBranches,
  forward,
  goTo,
  layout,
  newTree,
  pathTo,
  remove,
  rename,
  shownPath,
  step,
} from '../hand/tree.js';

const deliver = (message) => ({deliver: {message}});
const walk = (tree, ...messages) => messages.map(deliver).reduce(step, tree);

/** 0 - 1 - 2 - 3, and from 1 the branch 4 - 5. */
function forked() {
  const tree = goTo(walk(newTree(), 0, 1, 2), 1);
  return walk(tree, 7, 8);
}

test('back undoes, forward repeats, also through a branch', () => {
  let tree = forked();
  assert.deepEqual(actionsTo(tree, tree.current), [deliver(0), deliver(7), deliver(8)]);
  tree = back(back(tree));
  assert.equal(tree.current, 1);
  assert.equal(forward(tree).current, 4, 'forward takes the branch that was shown last');
  assert.deepEqual(shownPath(tree), [0, 1, 4, 5]);
  tree = back(goTo(tree, 2));
  assert.equal(forward(tree).current, 2);
  assert.equal(back(back(tree)).current, 0, 'there is nothing before the start');
  assert.equal(forward(goTo(tree, 3)).current, 3, 'there is nothing after the end');
});

test('a step that was tried before does not make a second branch', () => {
  let tree = forked();
  const nodes = tree.nodes.length;
  tree = walk(goTo(tree, 1), 1);
  assert.equal(tree.current, 2);
  assert.equal(tree.nodes.length, nodes);
  assert.equal(countBranches(tree), 2);
});

test('trees are values', () => {
  const before = forked();
  const copy = structuredClone(before);
  step(before, deliver(9));
  goTo(before, 3);
  remove(before, 4);
  rename(before, 4, 'x');
  assert.deepEqual(before, copy);
});

test('a branch is removed with all its steps', () => {
  const tree = remove(forked(), 4);
  assert.equal(tree.current, 1, 'the shown step is before the removed ones');
  assert.equal(forward(tree).current, 2);
  assert.equal(countBranches(tree), 1);
  assert.equal(tree.nodes[4], null);
  assert.equal(goTo(tree, 5), tree, 'a removed step cannot be shown');
  assert.equal(remove(tree, 0), tree, 'the start stays');
  assert.equal(remove(goTo(forked(), 3), 4).current, 3);
});

test('a branch starts after its fork', () => {
  const tree = forked();
  assert.equal(branchOf(tree, 5), 4);
  assert.equal(branchOf(tree, 3), 2);
  assert.equal(branchOf(tree, 1), 1);
  assert.equal(branchOf(tree, 0), null);
});

test('names have a limit and count characters, not bytes', () => {
  const tree = rename(forked(), 4, '😀'.repeat(50));
  assert.equal([...tree.nodes[4].name].length, 40);
  assert.equal(rename(forked(), 4, 'a\u202eb').nodes[4].name, 'a\\u{202e}b', 'what cannot be seen is shown as its code');
});

test('a branch keeps to one row, and rows do not overlap', () => {
  let tree = forked();
  tree = walk(goTo(tree, 0), 9);
  tree = walk(goTo(tree, 3), 10);
  tree = walk(goTo(tree, 4), 11, 12);
  const {places, columns, rows} = layout(tree);
  assert.equal(places.size, tree.nodes.length);
  assert.equal(columns, 5);
  const seen = new Set();
  for (const [id, {column, row}] of places) {
    assert.equal(column, tree.nodes[id].depth);
    assert.ok(row < rows);
    assert.ok(!seen.has(`${column} ${row}`), 'two steps at one place');
    seen.add(`${column} ${row}`);
  }
  for (const id of [0, 1, 2, 3]) assert.equal(places.get(id).row, 0);
  assert.equal(places.get(4).row, places.get(5).row);
});

test('a free row is used again', () => {
  let tree = walk(newTree(), 0, 1, 2, 3, 4, 5, 6, 7);
  tree = walk(goTo(tree, 1), 20);
  tree = walk(goTo(tree, 5), 21);
  assert.equal(layout(tree).rows, 2);
});

test('a long run with many branches is laid out', () => {
  let tree = walk(newTree(), ...Array.from({length: 2000}, (_, index) => index));
  for (let at = 1; at < 2000; at += 2) tree = walk(goTo(tree, at), 100_000 + at);
  const {places} = layout(tree);
  assert.equal(places.size, 3001);
  assert.equal(pathTo(tree, 2000).length, 2001);
});
