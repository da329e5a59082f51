import assert from 'node:assert/strict';
import test, {afterEach} from 'node:test';

import {createSession} from '../hand/session.js';
import {encodeTree} from '../hand/codec.js';
import {newTree, step} from '../hand/tree.js';

const deliver = (message) => ({deliver: {message}});
const {fetch} = globalThis;
afterEach(() => {
  globalThis.fetch = fetch;
});

/** A server that answers each run with its length. `refuse(actions)` gives the index of an impossible action, or -1. */
function serve({refuse = () => -1, status = 200, asked = []} = {}) {
  globalThis.fetch = async (path, {body}) => {
    const {actions} = JSON.parse(body);
    asked.push(actions.length);
    const index = refuse(actions);
    const log = Array.from({length: (index < 0 ? actions.length : index) + 1}, (_, at) => ({text: `step ${at}`, violations: []}));
    const refused = index < 0 ? null : {index, why: 'message #9 is not in flight'};
    const answer = status === 200 ? {length: actions.length, log, lamps: [], refused} : {error: 'too many processes'};
    return new Response(JSON.stringify(answer), {status});
  };
  return asked;
}

function start(tree = newTree()) {
  const seen = {states: [], problems: [], moving: []};
  const session = createSession({
    spec: {algorithm: 'central'},
    rules: {},
    tree,
    onShow: (state, {moving}) => {
      seen.states.push(state?.length ?? null);
      seen.moving.push(Boolean(moving));
    },
    onProblem: (text) => text && seen.problems.push(text),
    onBusy: () => {},
  });
  return {session, seen};
}

test('a step asks the server, going back does not', async () => {
  const asked = serve();
  const {session, seen} = start();
  await session.start();
  await session.step(deliver(0));
  await session.back();
  await session.forward();
  assert.deepEqual(seen.states, [0, 1, 0, 1]);
  assert.deepEqual(seen.moving, [false, true, true, true], 'a neighbouring step is shown as a movement');
  assert.deepEqual(asked, [0, 1]);
  assert.equal(session.textOf(1), 'step 1');
});

test('a link with an impossible step shows the run up to it, and says why', async () => {
  serve({refuse: (actions) => actions.findIndex(({deliver: {message}}) => message === 9)});
  const {session, seen} = start([0, 9, 1].map(deliver).reduce(step, newTree()));
  await session.start();
  assert.deepEqual(seen.states, [1]);
  assert.deepEqual(seen.problems, ['Step 2 is not possible: message #9 is not in flight.']);
  assert.equal(encodeTree(session.tree), 'd0');
});

test('without an answer the page stays where it was', async () => {
  serve();
  const {session, seen} = start();
  await session.start();
  serve({status: 400});
  await session.step(deliver(0));
  assert.deepEqual(seen.problems, ['Too many processes.']);
  assert.equal(session.tree.current, 0);
  assert.ok(!session.isAhead());
});

test('only the last of two quick questions is shown', async () => {
  serve();
  const {session, seen} = start();
  await session.start();
  const waiting = [];
  globalThis.fetch = (path, {body, signal}) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new DOMException('stopped', 'AbortError')));
      waiting.push(() => {
        const {actions} = JSON.parse(body);
        resolve(new Response(JSON.stringify({length: actions.length, log: [], lamps: [], refused: null})));
      });
    });
  const first = session.step(deliver(0));
  assert.ok(session.isAhead());
  const second = session.goTo(0);
  waiting.forEach((answer) => answer());
  await Promise.all([first, second]);
  assert.deepEqual(seen.states, [0, 0]);
  assert.deepEqual(seen.problems, []);
});
