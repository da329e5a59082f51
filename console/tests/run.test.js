import assert from 'node:assert/strict';
import {test} from 'node:test';

import {byHand, request, verdict} from '../check/options.js';
import {readAddress} from '../hand/rules.js';
import {actionsTo} from '../hand/tree.js';
import {parse} from '../lib/route.js';
import {halves, write} from '../run/faults.js';
import {pausedAt} from '../run/shape.js';
import {signsOf} from '../run/signs.js';
import {applies, besides, counterparts, fromForm, groupOf, groupOfSource, inVariant, withAlgorithm} from '../run/spec.js';
import {readRefusal} from '../run/controls.js';
import {agreement, costs, judged, promises} from '../run/verdict.js';

test('a form becomes a spec without empty fields and defaults, always in the same order', () => {
  const values = {seed: '7', algorithm: 'maekawa', n: '7', variant: '', load: '', entries: '20', network: 'sync', loss: '0', faults: [], 'app-messages': false, 'no-detector': true, store: 'fenced'};
  assert.equal(JSON.stringify(fromForm(values, 'mutex')), '{"algorithm":"maekawa","n":7,"entries":20,"store":"fenced","seed":7,"no-detector":true}');
});

test('options without a meaning for the family are left out', () => {
  const values = {algorithm: 'bully', load: 'solo', entries: '3', hold: '1', store: 'fenced', faults: ['crash 1 @ 5']};
  assert.deepEqual(fromForm(values, 'election'), {algorithm: 'bully', faults: ['crash 1 @ 5']});
  assert.deepEqual(fromForm({...values, faults: ['random']}, 'election'), {algorithm: 'bully', load: 'solo', faults: ['random']});
  assert.ok(applies('entries', 'detector') && !applies('entries', 'detector', true));
});

test('a variant may assume and promise something else', () => {
  const views = {name: 'views', facts: {assumes: ['the source never crashes'], promises: ['safety']}};
  const algorithm = {name: 'a', assumes: ['no crash'], promises: ['safety', 'order'], variants: [{name: 'parked'}, views]};
  assert.deepEqual(inVariant(algorithm, 'parked+views').promises, ['safety']);
  assert.deepEqual(inVariant(algorithm, 'parked').promises, ['safety', 'order']);
  assert.deepEqual(inVariant(algorithm, undefined).assumes, ['no crash']);
});

test('a run beside another keeps all but the algorithm and what it does not know', () => {
  const spec = {algorithm: 'maekawa-1985', n: 4, variant: 'grid', seed: 3};
  assert.deepEqual(withAlgorithm(spec, {name: 'maekawa', variants: [{name: 'grid'}]}), {algorithm: 'maekawa', n: 4, seed: 3, variant: 'grid'});
  assert.deepEqual(withAlgorithm(spec, {name: 'central', variants: [{name: 'lease:L'}]}), {algorithm: 'central', n: 4, seed: 3});
  assert.deepEqual(withAlgorithm({...spec, variant: 'lease:5'}, {name: 'central', variants: [{name: 'lease:L'}]}).variant, 'lease:5');
  const all = [{name: 'a', cured: null}, {name: 'a-1', cured: 'a'}, {name: 'b', cured: null}];
  assert.deepEqual([counterparts(all[0], all), counterparts(all[1], all), counterparts(all[2], all)].map((found) => found.map(({name}) => name)), [['a-1'], ['a'], []]);
  assert.deepEqual(groupOf({algorithm: 'a', n: 3, seed: 4, faults: []}), {algorithm: 'a', n: 3});
});

test('a run may stand beside its cure, and beside itself with the detector on or off', () => {
  const broken = {name: 'a-1', family: 'mutex', cured: 'a', broken: 'how', variants: []};
  const healthy = {name: 'a', family: 'mutex', cured: null, broken: null, variants: []};
  const all = [healthy, broken, {name: 'd', family: 'detector', cured: null, broken: null, variants: []}];
  const spec = {algorithm: 'a-1', n: 3, faults: ['crash 1 @ 5']};
  assert.deepEqual(besides(spec, broken, all), [
    {value: 'a', text: 'a (without the mistake)', spec: {...spec, algorithm: 'a'}, tags: [['bad', 'with the mistake'], ['', 'without the mistake']]},
    {value: 'detector', text: 'the detector off', spec: {...spec, 'no-detector': true, 'ignore-assumptions': true}, tags: [['', 'detector on'], ['', 'detector off']]},
  ]);
  const [back] = besides({algorithm: 'a', 'no-detector': true}, healthy, [healthy]);
  assert.deepEqual(back, {value: 'detector', text: 'the detector on', spec: {algorithm: 'a'}, tags: [['', 'detector off'], ['', 'detector on']]});
  assert.deepEqual(besides({algorithm: 'd'}, all[2], all), [], 'a failure detector is nothing without its detector');
});

test('faults are written as the simulator reads them', () => {
  assert.deepEqual(write('crash', {process: '1', at: '5'}), {fault: 'crash 1 @ 5'});
  assert.deepEqual(write('recover', {process: '1', at: '5', forgets: true}), {fault: 'recover 1 @ 5 without-memory'});
  assert.deepEqual(write('pause', {process: '1', at: '5', lasts: '3'}), {fault: 'pause 1 @ 5 for 3'});
  assert.deepEqual(write('partition', {groups: '0,1|2', at: '5'}), {fault: 'partition 0,1|2 @ 5'});
  assert.deepEqual(write('oneway', {from: '0', to: '1', at: '5', for: '2'}), {fault: 'oneway 0->1 @ 5 for 2'});
  assert.deepEqual(write('random', {}), {fault: 'random'});
  assert.match(write('pause', {process: '1', at: '', lasts: ' '}).error, /needs: at \(T\), for \(T\)\./);
  assert.equal(halves(5), '0,1,2|3,4');
});

const properties = (more) => ({safety: 'held', liveness: 'held', order: 'unchecked', fence: 'held', detail: {order: 'does not apply'}, ...more});

test('the headline names what is broken, and tells a broken promise from what was never promised', () => {
  const promised = ['safety', 'liveness'];
  assert.deepEqual(promises({properties: properties()}, promised).headline, {tone: 'good', text: 'All promises held', detail: null});
  assert.equal(promises({properties: properties(), leader: 3}, promised).headline.detail, 'P3 leads');
  const stuck = promises({properties: properties({liveness: 'violated', detail: {liveness: 'P1 waits'}})}, promised);
  assert.deepEqual(stuck.headline, {tone: 'bad', text: 'Liveness is violated', detail: 'P1 waits'});
  assert.equal(promises({properties: properties({fence: 'violated'})}, promised).headline.tone, 'warn');
  const both = promises({properties: {safety: 'violated', liveness: 'violated', detail: {safety: 'never promised', liveness: 'P1 waits'}}}, ['liveness']);
  assert.deepEqual(both.headline, {tone: 'bad', text: 'Liveness is violated', detail: 'P1 waits'}, 'the detail is that of the broken promise');
  const store = {writes: 3, refused: 0, lost: 1, data: {verdict: 'violated', detail: 'a write was lost'}};
  assert.equal(promises({properties: properties(), store}, promised).headline.text, 'Data is violated, and not promised');
});

test('a judged trace is broken only by what counts', () => {
  const found = (verdict, counts) => judged({resources: [{resource: null, properties: [{property: 'order', verdict, counts, detail: 'why'}]}]}).headline;
  assert.deepEqual(found('violated', true), {tone: 'bad', text: 'Order is violated', detail: 'why'});
  assert.deepEqual([found('violated', false).tone, found('held', true).tone], ['good', 'good']);
});

test('a trace without an end gets no green headline', () => {
  const row = (property, verdict, counts, detail) => ({property, verdict, counts, detail});
  const cut = judged({resources: [{resource: null, properties: [row('safety', 'held', true), row('liveness', 'unchecked', true, 'P0 waits at the end, but the trace has no end'), row('order', 'unchecked', false)]}]});
  assert.deepEqual(cut.headline, {tone: 'open', text: 'Nothing is violated; liveness cannot be judged: the trace has no end', detail: 'P0 waits at the end'});
  const broken = judged({resources: [{resource: null, properties: [row('safety', 'violated', true, 'two inside'), row('liveness', 'unchecked', true)]}]});
  assert.equal(broken.headline.tone, 'bad');
});

test('a refusal that a flag would lift becomes a sentence and a button', () => {
  const said = '`bully` assumes that a failure detector reports every crash, and there is none; --ignore-assumptions runs it all the same';
  assert.deepEqual(readRefusal(said), {text: '`bully` assumes that a failure detector reports every crash, and there is none', canIgnore: true});
  assert.deepEqual(readRefusal('no such algorithm'), {text: 'no such algorithm', canIgnore: false});
});

test('measured values are compared by the kind of their theory', () => {
  const word = (value, kind, of = 8) => agreement(value, {kind, value: of})?.word;
  assert.deepEqual([word(8, 'exact'), word(8.01, 'exact'), word(8.4, 'mean'), word(9, 'mean'), word(7, 'bound'), word(9, 'bound')], ['agrees', 'differs', 'agrees', 'differs', 'within', 'differs']);
  assert.equal(agreement(8, undefined), null);
  const rows = costs({messages_per_entry: 8, client_delay: {mean: 2, max: 3}, sync_delay: null, time: 10}, {messages_per_entry: {value: 8}});
  assert.deepEqual(rows.map(({name}) => name), ['messages per entry', 'client delay', 'client delay, longest', 'time']);
  assert.equal(rows[0].theory.value, 8);
});

test('a mean over few entries may be farther from theory, and says so', () => {
  const report = {messages_per_entry: 11.9, spread: {values: 80, differs: 0.2236, entries_enough: 2020}};
  const [{value, theory}] = costs(report, {messages_per_entry: {kind: 'mean', value: 9.758}});
  const {word, why} = agreement(value, theory);
  assert.equal(word, 'agrees');
  assert.match(why, /22 %.*2020/);
  assert.equal(agreement(13, theory).word, 'differs');
  const [exact] = costs(report, {messages_per_entry: {kind: 'exact', value: 9.758}});
  assert.equal(agreement(exact.value, exact.theory).word, 'differs');
});

test('a check asks only for what differs from the defaults', () => {
  const values = {algorithm: 'maekawa', n: '3', variant: '', entries: '', order: '', property: 'order', crash: '0', recover: '0', loss: '1', duplicate: '', suspect: '', timers: '', ignore_assumptions: true};
  assert.deepEqual(request(values), {spec: {algorithm: 'maekawa', n: 3}, options: {recover: 0, loss: 1, property: 'order', ignore_assumptions: true}});
});

test('a counterexample is repeated by hand step by step', () => {
  const actions = [{user: {process: 0, wish: 'request'}}, {user: {process: 1, wish: 'request'}}, {deliver: {message: 0}}];
  const algorithm = {name: 'a', assumes: []};
  const {tree, spec} = readAddress(parse(byHand({algorithm: 'a', n: 2}, actions, algorithm)).query, [algorithm]);
  assert.deepEqual(actionsTo(tree, tree.current), actions);
  assert.deepEqual(spec, {algorithm: 'a', n: 2});
});

test('the verdict of a check is one sentence', () => {
  assert.equal(verdict({result: 'violated', property: 'deadlock', detail: 'all wait', steps: 6, states: 80}).text, 'Deadlock in 6 steps');
  assert.equal(verdict({result: 'holds', properties: ['safety', 'fence'], states: 1200}).text, 'Holds in every state: safety, fence');
  assert.equal(verdict({result: 'violated', property: 'safety', steps: 1}).text, 'Safety is violated in 1 step');
  assert.match(verdict({result: 'holds', unsettled: ['liveness']}).detail, /No verdict .* liveness/);
  assert.equal(verdict({result: 'limit', states: 5}).tone, 'warn');
});

const clients = (count) => Array.from({length: count}, (_, id) => ({id, role: 'client'}));

test('the group of a run is known from its spec, or from the header of its trace', () => {
  const scene = {processes: [...clients(4), {id: 4, role: 'helper'}]};
  assert.deepEqual(groupOfSource({spec: {algorithm: 'voting', n: 3, votes: 2, seed: 5}}, scene), {algorithm: 'voting', n: 3, votes: 2});
  assert.deepEqual(groupOfSource({spec: {algorithm: 'central'}}, scene), {algorithm: 'central', n: 4});
  const trace = '{"baton_trace":1,"algorithm":"maekawa","processes":5,"variant":"majority","params":{"coordinators":3}}\n{"seq":0}\n';
  const group = {algorithm: 'maekawa', n: 4, variant: 'majority', coordinators: 3};
  assert.deepEqual(groupOfSource({trace}, scene), group);
  assert.deepEqual(groupOfSource({upload: 'x', otherwise: {trace}}, scene), group);
  assert.deepEqual([groupOfSource(null, scene), groupOfSource({trace: 'no trace'}, scene)], [null, null]);
});

test('a process is drawn as paused from its pause until it resumes', () => {
  const scene = {bars: [{process: 1, kind: 'paused', from: {seq: 4}, to: {seq: 9}}, {process: 2, kind: 'paused', from: {seq: 8}, to: null}, {process: 0, kind: 'down', from: {seq: 1}, to: null}]};
  assert.deepEqual([3, 4, 8, 9].map((seq) => [...pausedAt(scene, seq)]), [[], [1], [1, 2], [2]]);
});

test('the legend has the signs of the run and no others', () => {
  const scene = (kinds, marks = [], arrows = [], more = {}) => ({bars: kinds.map((kind) => ({kind})), marks: marks.map((kind) => ({kind})), arrows, violations: [], cycle: null, ...more});
  const mutex = signsOf(scene(['waiting', 'inside'], ['timer'], [{is_app: false, fate: 'arrived'}]));
  assert.deepEqual(mutex.map(([sign]) => sign), ['waiting', 'inside', 'message', 'dot']);
  assert.equal(mutex[0][1], 'waits for the critical section');
  const append = signsOf({...scene([]), bars: [{kind: 'waiting', label: 'offset 3'}]});
  assert.deepEqual(append, [['waiting', 'waits for the offset of its record']]);
  const election = signsOf(scene(['waiting', 'leads'], ['suspect', 'no_leader', 'partition'], [{is_app: false, fate: {lost: 'partition'}}]));
  assert.deepEqual(election.map(([, text]) => text), ['waits for a leader', 'believes that it leads', 'a message that is lost', '“no leader”: knows of no leader any more', 'suspects a process', 'the network is cut, each side in its shade']);
  assert.deepEqual(signsOf(scene([], [], [], {cycle: {seq: 3}, violations: [{}]})).map(([sign]) => sign), ['repeat', 'violation']);
  const unpromised = {violations: [{is_broken_promise: false}]};
  assert.deepEqual(signsOf(scene([], [], [], unpromised)).map(([sign]) => sign), ['unpromised']);
  assert.deepEqual(signsOf(scene([])), []);
});
