import assert from 'node:assert/strict';
import test from 'node:test';

import {curve, freeBend, pointOn, spots} from '../structure/geometry.js';
import {FANO_LINES, circle, closest, fano, fit, place} from '../structure/place.js';

const clients = (n) => Array.from({length: n}, (_, id) => ({id, role: 'client', picture: []}));
const withHelpers = (n, helpers) => [...clients(n), ...Array.from({length: helpers}, (_, i) => ({id: n + i, role: 'helper', picture: []}))];
const margin = {left: 30, right: 30, top: 30, bottom: 30};

test('no two processes are at the same place, whatever the shape and the size', () => {
  for (let n = 1; n <= 16; n += 1) {
    const ids = clients(n).map(({id}) => id);
    const chain = ids.slice(1).map((id) => [id - 1, id]);
    const binary = ids.slice(1).map((id) => [Math.floor((id - 1) / 2), id]);
    const structures = [
      {shape: 'ring', ring: ids},
      {shape: 'tree', edges: chain},
      {shape: 'tree', edges: binary},
      {shape: 'grid'},
      {shape: 'grid', grid: {columns: 3}},
      {shape: 'plane', quorums: []},
      {shape: 'complete'},
      {shape: 'star'},
      {shape: 'new'},
    ];
    for (const structure of structures) {
      for (const processes of [clients(n), withHelpers(n, 1), withHelpers(n, 5)]) {
        const {points} = place(structure, processes);
        assert.equal(points.size, processes.length, JSON.stringify(structure));
        for (const {x, y} of points.values()) assert.ok(x >= -1e-9 && x <= 1 + 1e-9 && y >= -1e-9 && y <= 1 + 1e-9);
        if (processes.length > 1) assert.ok(closest(points) > 0.02, `${structure.shape} ${processes.length}: ${closest(points)}`);
      }
    }
  }
});

test('a ring is a circle in its own order, clockwise from the top', () => {
  const {points, edges, directed} = place({shape: 'ring', ring: [0, 2, 1, 3]}, clients(4));
  assert.deepEqual(edges, [
    [0, 2],
    [2, 1],
    [1, 3],
    [3, 0],
  ]);
  assert.ok(directed);
  assert.ok(points.get(0).y < 0.01);
  assert.ok(points.get(2).x > 0.99);
  assert.ok(points.get(1).y > 0.99);
});

test('a parent is above and in the middle of its children', () => {
  const edges = [
    [0, 1],
    [0, 2],
    [1, 3],
    [1, 4],
    [2, 5],
    [2, 6],
  ];
  const {points} = place({shape: 'tree', edges}, clients(7));
  for (const [parent, child] of edges) assert.ok(points.get(parent).y < points.get(child).y);
  assert.equal(points.get(0).x, 0.5);
  assert.equal(points.get(1).x, (points.get(3).x + points.get(4).x) / 2);
});

test('a long chain turns at the side, and neighbours stay neighbours', () => {
  const edges = Array.from({length: 9}, (_, i) => [i, i + 1]);
  const {points} = place({shape: 'tree', edges}, clients(10));
  assert.equal(new Set([...points.values()].map(({y}) => y)).size, 2);
  for (const [a, b] of edges) {
    const distance = Math.abs(points.get(a).x - points.get(b).x);
    assert.ok(distance < 0.26, `${a}-${b}`);
  }
});

test('the fathers of Naimi and Trehel make a tree that moves with them', () => {
  const father = (to) => [{name: 'father', kind: 'pointer', to}];
  const processes = [null, 0, 1, null].map((to, id) => ({id, role: 'client', picture: father(to)}));
  const {points} = place({shape: 'complete'}, processes, 'fathers');
  assert.ok(points.get(0).y < points.get(1).y && points.get(1).y < points.get(2).y);
  assert.equal(points.get(3).y, points.get(0).y);
  const loop = [1, 0].map((to, id) => ({id, role: 'client', picture: father(to)}));
  assert.equal(place({shape: 'complete'}, loop, 'fathers').points.size, 2, 'pointers in a circle do not hang the page');
});

test('the voting sets of seven processes become the lines of the plane', () => {
  const sets = Array.from({length: 7}, (_, i) => [i, (i + 1) % 7, (i + 3) % 7]);
  const slots = fano(sets);
  const lines = FANO_LINES.map((line) =>
    line
      .map((slot) => slots[slot])
      .sort()
      .join(),
  );
  assert.deepEqual(lines.sort(), sets.map((set) => [...set].sort().join()).sort());
  assert.equal(fano(sets.slice(1)), null);
  assert.equal(fano(sets.map(() => [0, 1, 2])), null);
  assert.equal(fano([...sets.slice(1), [0, 1, 2]]), null, 'sets that meet twice are no plane');
  assert.ok(place({shape: 'plane', quorums: sets}, clients(7)).fano);
});

test('a drawing stays inside its box', () => {
  for (const [width, height] of [
    [640, 480],
    [358, 420],
    [10, 10],
  ]) {
    for (const round of [true, false]) {
      for (const {x, y} of fit(circle([0, 1, 2, 3, 4]), {width, height, margin, round}).values()) {
        assert.ok(x >= 29 && y >= 29 && x <= Math.max(31, width - 29) && y <= Math.max(31, height - 29));
      }
    }
  }
});

test('the two directions of a link lie apart, and messages keep their order on it', () => {
  const there = curve({x: 0, y: 0}, {x: 100, y: 0}, 10);
  const back = curve({x: 100, y: 0}, {x: 0, y: 0}, 10);
  assert.ok(pointOn(there, 0.5).y > 3 && pointOn(back, 0.5).y < -3);
  assert.ok(Math.abs(Math.hypot(there.from.x, there.from.y) - 10) < 1e-9, 'a curve starts at the edge of the circle');
  assert.deepEqual(spots(1), [0.5]);
  const three = spots(3);
  assert.ok(three[0] > three[1] && three[1] > three[2]);
});

test('a link keeps off the process between its ends, and inside the box', () => {
  const box = {width: 200, height: 100};
  const [from, between, to] = [
    {x: 20, y: 20},
    {x: 100, y: 20},
    {x: 180, y: 20},
  ];
  const clear = curve(from, to, 10, freeBend(from, to, 10, {others: [between], clearance: 20, box}));
  const middle = pointOn(clear, 0.5);
  assert.ok(Math.hypot(middle.x - between.x, middle.y - between.y) >= 20);
  const back = curve(to, from, 10, freeBend(to, from, 10, {others: [], clearance: 20, box}));
  assert.ok(pointOn(back, 0.5).y > 15, 'the usual bend would leave the box');
});
