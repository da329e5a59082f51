import assert from 'node:assert/strict';
import {test} from 'node:test';

import {events, indexOf, ranks} from '../diagram/events.js';
import {distance, hit, nearest, seqAt} from '../diagram/hit.js';
import {Labels, along, turned} from '../diagram/labels.js';
import {layout} from '../diagram/layout.js';
import {Player, step} from '../diagram/play.js';
import {every, firstAtLeast, timeScale} from '../diagram/scale.js';
import {Spans} from '../diagram/spans.js';
import {clamp, fit, pan, reveal, toPixel, toPosition, zoom} from '../diagram/view.js';

const at = (seq, t) => ({seq, t});

/** P0 asks and sends to P1 and P2; P1 answers; P2's message is lost. */
function scene(more = {}) {
  return {
    title: 'test', unit: 'T', processes: [0, 1, 2].map((id) => ({id, name: `P${id}`, role: 'client'})),
    moments: [at(0, 0), at(3, 1), at(5, 2)], cycle: null, violations: [], records: 7,
    bars: [{process: 0, kind: 'waiting', label: '', from: at(0, 0), to: at(5, 2)}, {process: 0, kind: 'inside', label: 'fence 1', from: at(5, 2), to: null}],
    arrows: [
      {msg: 0, kind: 'REQUEST', label: 'REQUEST', from: 0, to: 1, start: at(1, 0), end: at(3, 1), fate: 'arrived'},
      {msg: 1, kind: 'REQUEST', label: 'REQUEST', from: 0, to: 2, start: at(2, 0), end: at(6, 2), fate: {lost: 'loss'}},
      {msg: 2, kind: 'REPLY', label: 'REPLY', from: 1, to: 0, start: at(4, 1), end: at(5, 2), fate: 'arrived'},
    ],
    marks: [], ...more,
  };
}

test('events come by record, each record once, and an arrow says more than a bar', () => {
  const all = events(scene());
  assert.deepEqual(all.map((event) => event.seq), [0, 1, 2, 3, 4, 5, 6]);
  assert.equal(all[5].what, 'arrived');
  assert.equal(all[5].process, 0);
  assert.equal(indexOf(all, 3), 3);
  assert.equal(indexOf(all, 99), 6);
  assert.equal(indexOf(all, -1), -1);
});

test('a rank is larger than the ranks of all that happened before', () => {
  const given = scene();
  const {rank, columns} = ranks(given);
  assert.deepEqual([0, 1, 2].map((seq) => rank.get(seq)), [0, 1, 2], 'the events of one process follow each other');
  for (const arrow of given.arrows) assert.ok(rank.get(arrow.start.seq) < rank.get(arrow.end.seq), arrow.label);
  assert.equal(rank.get(3), 2, 'an arrival is one column after its send, beside what happens elsewhere meanwhile');
  assert.equal(columns, 5);
});

test('an event of the whole network comes after everything before it and before everything after it', () => {
  const partition = {process: null, kind: 'partition', text: 'partition', groups: [[0], [1, 2]], ...at(4.5, 1.5)};
  const {rank} = ranks(scene({marks: [partition]}));
  assert.ok(rank.get(4.5) > Math.max(...[0, 1, 2, 3, 4].map((seq) => rank.get(seq))));
  assert.ok(rank.get(5) > rank.get(4.5));
});

test('time is in proportion, except for long gaps, which become breaks', () => {
  const {xs, breaks, at: x, width} = timeScale([0, 1, 2, 3, 5, 6, 500, 501]);
  assert.equal(xs[2] - xs[1], xs[1] - xs[0]);
  assert.equal(xs[4] - xs[3], 2 * (xs[1] - xs[0]));
  assert.deepEqual(breaks.map(({start, end}) => [start, end]), [[6, 500]]);
  assert.ok(xs[6] - xs[5] < 200);
  assert.equal(x(2.5), (xs[2] + xs[3]) / 2);
  assert.deepEqual([x(-1), x(1000)], [0, width]);
  assert.deepEqual([timeScale([]).width, timeScale([3]).at(3)], [0, 0]);
});

test('moments that are almost the same still stand apart', () => {
  const {xs} = timeScale([0, 1e-9, 1, 2, 3]);
  assert.ok(xs[1] - xs[0] >= 5);
});

test('a message of the usual delay fits on the page, however many moments there are', () => {
  const times = Array.from({length: 1000}, (_, at) => at / 100);
  assert.ok(timeScale(times).at(1) > 5000);
  const {at, width} = timeScale(times, 1);
  assert.equal(at(1), 500, 'a hundred moments, each at least visible');
  assert.ok(width < 5000);
});

test('binary search finds the first that is at least as large', () => {
  assert.deepEqual([0, 1, 2, 3, 9].map((value) => firstAtLeast([1, 2, 2, 5], value)), [0, 0, 1, 3, 4]);
});

test('ticks are labelled every 1, 2, 5, 10, ... positions', () => {
  assert.deepEqual([every(100, 50), every(30, 50), every(1, 50), every(0.3, 60)], [1, 2, 50, 200]);
});

test('spans find what touches a range as a look at everything does', () => {
  let seed = 7;
  const random = () => { seed = (seed * 48271) % 2147483647; return seed / 2147483647; };
  const items = Array.from({length: 500}, () => { const x0 = random() * 1000; return {x0, x1: x0 + random() * (random() < 0.02 ? 600 : 20)}; });
  const spans = new Spans(items);
  for (let round = 0; round < 50; round += 1) {
    const left = random() * 1000;
    const right = left + random() * 80;
    const found = [];
    spans.visible(left, right, (item) => found.push(item));
    const expected = items.filter((item) => item.x0 <= right && item.x1 >= left);
    assert.deepEqual(new Set(found), new Set(expected));
  }
});

test('of 50,000 arrows only those in the window are looked at', () => {
  const spans = new Spans(Array.from({length: 50_000}, (_, at) => ({x0: at, x1: at + 30})));
  const [from, to] = spans.range(20_000, 20_100);
  assert.ok(to - from < 200, `${to - from}`);
});

test('what is under the pointer stays there when the view zooms', () => {
  const bounds = {end: 10_000, width: 800, margin: 20};
  const view = {x: 400, k: 1};
  const zoomed = zoom(view, 1.5, 300, bounds);
  assert.equal(zoomed.k, 1.5);
  assert.ok(Math.abs(toPosition(zoomed, 300) - toPosition(view, 300)) < 1e-9);
  assert.equal(toPixel(zoomed, toPosition(zoomed, 123)), 123);
});

test('zoom and pan stay within bounds', () => {
  const bounds = {end: 10_000, width: 800, margin: 20};
  assert.ok(zoom({x: 0, k: 1}, 1e-9, 0, bounds).k >= fit(10_000, 800, 20).k - 1e-12);
  assert.ok(zoom({x: 0, k: 1}, 1e9, 0, bounds).k <= 12);
  assert.equal(pan({x: 0, k: 1}, -1e6, bounds).x, -20);
  assert.equal(pan({x: 0, k: 1}, 1e9, bounds).x, 10_000 + 20 - 800);
  assert.equal(clamp({x: 50, k: 1}, {end: 100, width: 800, margin: 20}).x, -20, 'a short run does not move');
});

test('the view moves only if the chosen moment is outside', () => {
  const bounds = {end: 10_000, width: 800, margin: 20};
  const view = {x: 0, k: 1};
  assert.equal(reveal(view, 400, bounds), view);
  assert.equal(toPixel(reveal(view, 5000, bounds), 5000), 720);
  assert.equal(toPixel(reveal({x: 6000, k: 1}, 5000, bounds), 5000), 80);
});

test('a label that would cover another is left out', () => {
  const labels = new Labels();
  assert.ok(labels.take({x: 100, y: 100, width: 60, height: 12}));
  assert.ok(!labels.take({x: 140, y: 105, width: 60, height: 12}));
  assert.ok(labels.take({x: 165, y: 100, width: 60, height: 12}));
  assert.ok(labels.take({x: -500, y: -100, width: 60, height: 12}));
  const upright = turned(0, 0, 60, 12, Math.PI / 2);
  assert.ok(Math.abs(upright.height - 60) < 1e-9 && Math.abs(upright.width - 12) < 1e-9);
  assert.ok(along(1, true) < along(3, true));
});

test('a layout has a place for everything, in both spacings', () => {
  for (const spacing of ['time', 'order']) {
    const plan = layout(scene(), spacing);
    assert.equal(plan.arrows.items.length, 3);
    assert.equal(plan.bars.items[1].x1, plan.end, 'a bar without an end reaches the end');
    for (const arrow of plan.arrows.items) assert.ok(arrow.head > arrow.tail, spacing);
    assert.equal(plan.xs.length, plan.events.length);
    assert.equal(plan.xOf(6), plan.xs[6]);
  }
});

test('a partition is a band until the network heals', () => {
  const mark = (kind, seq, t, more = {}) => ({process: null, kind, text: kind, ...at(seq, t), ...more});
  const marks = [mark('partition', 3.5, 1, {groups: [[0], [1, 2]]}), mark('heal', 4.5, 2)];
  const [band] = layout(scene({marks})).bands;
  assert.deepEqual([band.x0, band.x1], [layout(scene()).scale.at(1), layout(scene()).scale.at(2)]);
  assert.deepEqual([band.sides.get(0), band.sides.get(2)], [0, 1]);
  const open = layout(scene({marks: marks.slice(0, 1)}));
  assert.equal(open.bands[0].x1, open.end);
});

test('the pointer finds arrows and bars', () => {
  const plan = layout(scene());
  const toY = (lane) => 50 * lane;
  const found = (px, py) => hit(plan, {px, py, toX: (x) => x, toY, at: (x) => x});
  const arrow = plan.arrows.items.find((placed) => placed.item.msg === 2);
  assert.equal(found((arrow.tail + arrow.head) / 2, 25).placed, arrow);
  assert.equal(found(plan.end - 4, 2).type, 'bar');
  assert.equal(found(plan.end - 4, 40), null);
  assert.equal(distance(5, 5, 0, 0, 10, 0), 5);
  assert.equal(distance(13, 4, 0, 0, 10, 0), 5);
});

test('steps go through the records and stop at the ends', () => {
  const all = [0, 2, 5].map((seq) => ({seq}));
  assert.deepEqual([step(all, null, 1), step(all, 0, 1), step(all, 5, 1), step(all, 0, -1), step(all, 3, -1), step(all, 3, 1)], [0, 2, 5, 0, 2, 5]);
  assert.equal(step([], null, 1), null);
});

test('the player advances until nothing is left', () => {
  let tick;
  const clock = {setInterval: (run) => { tick = run; return 1; }, clearInterval: () => { tick = null; }};
  let left = 3;
  const player = new Player({advance: () => (left -= 1) > 0, clock});
  player.start();
  assert.ok(player.playing);
  tick();
  tick();
  assert.ok(!player.playing);
});

test('a click on a bar chooses the event nearest to the point, not where the bar begins', () => {
  const plan = layout(scene({marks: [{process: 1, kind: 'timer', text: 'timer', ...at(7, 2)}]}));
  const click = (x, lane) => seqAt(plan, {px: x, py: 100 * lane, toX: (position) => position, toY: (its) => 100 * its, at: (pixel) => pixel});
  const [start, middle, end] = [0, 1, 2].map((t) => plan.scale.at(t));
  const waiting = (part) => click(start + part * (end - start), 0);
  assert.equal(waiting(0.55), 4, 'near the middle of the wait P1 gets the request and answers');
  assert.equal(waiting(0.9), 5, 'near its end P0 enters');
  assert.equal(click((end + plan.end) / 2, 0), 5, 'inside, after all events');
  assert.equal(click(end, 1), 7, 'a mark');
  assert.equal(click(start + 0.4 * (middle - start), 0.4), 1, 'the tail of an arrow');
  assert.equal(click(start + 0.7 * (middle - start), 0.7), 3, 'its head');
});

test('the nearest event is the one that a look at all events finds, in both spacings', () => {
  for (const spacing of ['time', 'order']) {
    const plan = layout(scene(), spacing);
    const toY = (lane) => 100 * lane;
    for (let px = -30; px < plan.end + 30; px += 7) {
      for (const py of [0, 90, 210]) {
        const far = plan.events.map(({seq, process}, index) => ({seq, far: Math.abs(plan.xs[index] - px) + 0.05 * Math.abs(toY(plan.laneOf(process)) - py)}));
        const best = far.reduce((a, b) => (b.far <= a.far ? b : a)).seq;
        assert.equal(nearest(plan, {px, py, toX: (x) => x, toY, at: (x) => x}), best, `${spacing} ${px} ${py}`);
      }
    }
  }
  assert.equal(nearest(layout({...scene(), bars: [], arrows: []}), {px: 0, py: 0, toX: (x) => x, toY: (y) => y, at: (x) => x}), null);
});
