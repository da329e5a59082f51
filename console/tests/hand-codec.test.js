import assert from 'node:assert/strict';
import test from 'node:test';

import {BadLink, decodeAction, decodeTree, encodeAction, encodeTree} from '../hand/codec.js';
import {actionsTo, back, goTo, newTree, pathTo, rename, step} from '../hand/tree.js';

const request = (process) => ({user: {process, wish: 'request'}});
const deliver = (message) => ({deliver: {message}});

test('every action has a short code and comes back from it', () => {
  const codes = [
    [request(0), 'q0'],
    [{user: {process: 3, wish: 'release'}}, 'l3'],
    [{user: {process: 1, wish: 'elect'}}, 'e1'],
    [{user: {process: 1, wish: {append: 65}}}, 'w1_65'],
    [deliver(12), 'd12'],
    [{drop: {message: 1}}, 'x1'],
    [{duplicate: {message: 1}}, 'c1'],
    [{forge: {from: 0, to: 1, like: 7}}, 'f0_1_7'],
    [{timer: {process: 2, name: 'Answer'}}, 't2_Answer'],
    [{timer: {process: 2, name: 'Retry(3) { ö: 1 }'}}, 't2_Retry~283~29~20~7b~20~c3~b6~3a~201~20~7d'],
    [{suspect: {by: 0, of: 2}}, 's0_2'],
    [{trust: {by: 0, of: 2}}, 'u0_2'],
    [{crash: {process: 2}}, 'k2'],
    [{recover: {process: 2, memory: true}}, 'r2'],
    [{recover: {process: 2, memory: false}}, 'm2'],
    [{app: {from: 0, to: 1}}, 'a0_1'],
    [{choose: {script: [2, 0]}}, 'o2_0'],
  ];
  for (const [action, code] of codes) {
    assert.equal(encodeAction(action), code);
    assert.deepEqual(decodeAction(code), action);
    assert.equal(encodeURIComponent(code), code, 'nothing needs escaping in an address');
  }
});

test('a run without branches is its steps joined by dots', () => {
  const tree = [request(0), request(1), deliver(0)].reduce(step, newTree());
  assert.equal(encodeTree(tree), 'q0.q1.d0');
  assert.equal(encodeTree(newTree()), '');
  assert.deepEqual(decodeTree('q0.q1.d0'), tree);
  assert.deepEqual(decodeTree(''), newTree());
});

test('a shown step before the end is marked', () => {
  const tree = [request(0), request(1), deliver(0)].reduce(step, newTree());
  assert.equal(encodeTree(back(tree)), 'q0.q1!.d0');
  assert.equal(encodeTree(goTo(tree, 0)), '!q0.q1.d0');
  assert.equal(decodeTree('q0.q1!.d0').current, 2);
  assert.equal(decodeTree('!q0.q1.d0').current, 0);
});

test('branches, their names and the shown step survive the address', () => {
  let tree = [request(0), request(1), deliver(0), deliver(1)].reduce(step, newTree());
  tree = step(goTo(tree, 2), deliver(1));
  tree = rename(tree, tree.current, "the (other) way: 'ö'!");
  tree = step(step(tree, deliver(0)), request(2));
  tree = step(goTo(tree, 5), {crash: {process: 1}});
  tree = step(goTo(tree, 0), request(2));
  const text = encodeTree(tree);
  assert.equal(text, "(q0.q1(d0.d1)(d1'the~20~28other~29~20way~3a~20~27~c3~b6~27~21'(d0.q2)(k1)))(q2!)");
  assert.equal(encodeURIComponent(text), text);
  const read = decodeTree(text);
  assert.equal(encodeTree(read), text);
  assert.deepEqual(actionsTo(read, read.current), [request(2)]);
  assert.equal(read.nodes.filter((node) => node.name).length, 1);
});

test('a link that no page has made is refused with a sentence', () => {
  const bad = [
    'z9',
    'd',
    'd-1',
    'd01',
    'd1_2',
    'q',
    'q0.',
    '.q0',
    'q0..q1',
    'q0q1',
    'q0.q1)',
    '(q0',
    'q0(q1',
    '()',
    'q0()',
    'q0((q1))',
    'q0!.q1!',
    'w0_256',
    't1_',
    't_x',
    't1_~g0',
    't1_~ff',
    'd9999999999',
    'o',
    'q0 ',
    'q0(q1)q2',
    'q0(q1)(q1)',
    "q0'~ff'",
    "q0'a",
    'f1_2',
    'd1e3',
    '__proto__',
    'constructor',
    'q0.<b>',
  ];
  for (const text of bad) {
    assert.throws(
      () => decodeTree(text),
      (error) => error instanceof BadLink && /^The link .*\.$/.test(error.message),
      text,
    );
  }
});

test('a link has limits', () => {
  const long = Array(2001).fill('q0').join('.');
  assert.throws(() => decodeTree(long), /more than 2000 steps in one run/);
  assert.equal(pathTo(decodeTree(Array(2000).fill('q0').join('.')), 2000).length, 2001);
  const wide = Array.from({length: 5001}, (_, index) => `(d${index})`).join('');
  assert.throws(() => decodeTree(wide), /more than 5000 steps/);
  assert.throws(() => decodeTree('q'.repeat(300_000)), /too long/);
});
