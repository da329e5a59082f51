import assert from 'node:assert/strict';
import {test} from 'node:test';

import {Lines} from '../lib/api.js';
import {body, list, number, time, visible} from '../lib/format.js';
import {index, pieces} from '../lib/glossary.js';
import {address, parse, runAddress, specOf} from '../lib/route.js';

test('what cannot be seen is written as its code', () => {
  assert.equal(visible('a\u202eb\u0000c\u200bd\ud800'), 'a\\u{202e}b\\u{0}c\\u{200b}d\\u{d800}');
  assert.equal(visible('<b>é 日本 😀</b>\tx'), '<b>é 日本 😀</b>\tx');
  assert.equal(visible(undefined), '');
});

test('numbers are short and have groups of three digits', () => {
  assert.deepEqual([number(1.28571428), number(8), number(1234), number(1234567), number(-12345.5), number(null)], ['1.286', '8', '1234', '1\u2009234\u2009567', '-12\u2009345.5', '–']);
  assert.deepEqual([time(1.5), time(3, 'step')], ['1.5 T', 'step 3']);
  assert.deepEqual([list([]), list(['a']), list(['a', 'b', 'c'])], ['', 'a', 'a, b and c']);
});

test('the body of a message is written as the checker writes it', () => {
  assert.equal(body({time: 1, of: [1, 2], who: 'x\u202e', none: null}), '{time: 1, of: [1, 2], who: x\\u{202e}, none: null}');
});

test('an address is read as it was written', () => {
  const spec = {algorithm: 'maekawa', n: 7, faults: ['partition 0,1|2 @ 3 for 4', 'a&b=c#?%']};
  const {page, query} = parse(runAddress(spec, {seq: 12, spacing: undefined}));
  assert.equal(page, 'run');
  assert.deepEqual(specOf(query), {spec});
  assert.equal(query.seq, '12');
  assert.ok(!('spacing' in query));
  assert.deepEqual(parse('#/algorithm/a%20b').rest, ['a b']);
  assert.deepEqual(parse(''), {page: 'home', rest: [], query: {}});
  assert.equal(address('home'), '#/');
  assert.deepEqual(parse('#/algorithm/%zz').rest, ['%zz']);
});

test('a damaged link or a link of another version gets a sentence', () => {
  for (const query of [{v: '2', spec: '{}'}, {v: '1', spec: '{'}, {v: '1', spec: '[]'}, {v: '1', spec: 'null'}, {v: '1', spec: '{"algorithm":3}'}]) {
    assert.match(specOf(query).error, /^This link is .*\.$/);
  }
  assert.deepEqual(specOf({}), {});
});

test('each word of the glossary is explained once, and the longest word wins', () => {
  const words = index([{word: 'delay', meaning: 'd'}, {word: 'client delay', meaning: 'cd'}, {word: 'T', meaning: 't'}, {word: 'entry', meaning: 'e'}]);
  const found = pieces('The client delay of T, the delays, a delay and re-entry', words);
  assert.deepEqual(found.filter((piece) => piece.word).map((piece) => [piece.text, piece.meaning]), [['client delay', 'cd'], ['delays', 'd']]);
  assert.equal(found.map((piece) => piece.text).join(''), 'The client delay of T, the delays, a delay and re-entry');
  assert.deepEqual(pieces('x', index([])), [{text: 'x'}]);
  const names = index([{word: 'ORDER', meaning: 'o'}]);
  assert.deepEqual(pieces('the order, ORDER', names).filter((piece) => piece.word).map((piece) => piece.text), ['ORDER']);
});

test('lines are cut where the pieces are not', () => {
  const lines = new Lines();
  assert.deepEqual([lines.push('{"a"'), lines.push(':1}\n\n{"b":2}\n{"c'), lines.push('":3}'), lines.end(), lines.end()], [[], ['{"a":1}', '{"b":2}'], [], ['{"c":3}'], []]);
});
