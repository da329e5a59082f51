// Where the processes of a group are drawn. Pure functions; all places are in a square from 0 to 1.

/**
 * The places of the processes and the lines that belong to the structure itself.
 * `{points: Map(id -> {x, y}), edges: [[a, b]], directed: bool, round: bool, inner: Set(id)?}`. `round`: the drawing must not be
 * stretched. `inner`: the processes with an edge below them.
 */
export function place(structure, processes, arrangement = 'fixed') {
  const ids = processes.map((process) => process.id);
  if (arrangement === 'fathers') {
    const edges = fathers(processes);
    return {
      points: forest(ids, edges, rootsOf(ids, edges)),
      edges: [],
      directed: false,
      round: false,
      inner: new Set(edges.map(([, father]) => father)),
    };
  }
  switch (structure.shape) {
    case 'ring': {
      const ring = (structure.ring ?? ids).filter((id) => ids.includes(id));
      const edges = ring.length > 1 ? ring.map((id, index) => [id, ring[(index + 1) % ring.length]]) : [];
      return {
        points: around(
          ring,
          ids.filter((id) => !ring.includes(id)),
        ),
        edges,
        directed: true,
        round: true,
      };
    }
    case 'tree':
      return tree(ids, structure.edges ?? []);
    case 'grid':
      return {points: grid(ids, structure.grid?.columns), edges: [], directed: false, round: false};
    case 'plane':
      return plane(ids, structure.quorums ?? []);
    default: {
      const helpers = processes.filter(({role}) => role === 'helper').map(({id}) => id);
      const edges = structure.shape === 'star' ? (structure.edges ?? []) : [];
      return {
        points: around(
          ids.filter((id) => !helpers.includes(id)),
          helpers,
        ),
        edges,
        directed: false,
        round: true,
      };
    }
  }
}

/** Clockwise from the top. */
export function circle(ids, {x = 0.5, y = 0.5, radius = 0.5, turn = 0} = {}) {
  if (ids.length === 1) return new Map([[ids[0], {x, y}]]);
  const angle = (index) => (2 * Math.PI * (index + turn)) / ids.length - Math.PI / 2;
  return new Map(ids.map((id, index) => [id, {x: x + radius * Math.cos(angle(index)), y: y + radius * Math.sin(angle(index))}]));
}

/** Some processes on a circle, the others inside it. */
function around(outer, inner) {
  // Two stand at the sides, so that those inside have the room between them.
  const turn = outer.length === 2 ? -0.5 : 0;
  const points = outer.length === 1 && inner.length > 0 ? new Map([[outer[0], {x: 0.5, y: 0}]]) : circle(outer, {turn});
  const radius = inner.length < 4 ? 0.18 : 0.26;
  return new Map([...points, ...circle(inner, {radius, turn: inner.length % 2 === outer.length % 2 ? 0.5 : 0})]);
}

function grid(ids, columns = Math.ceil(Math.sqrt(ids.length))) {
  const rows = Math.ceil(ids.length / columns);
  const at = (index, count) => (count === 1 ? 0.5 : index / (count - 1));
  return new Map(ids.map((id, index) => [id, {x: at(index % columns, columns), y: at(Math.floor(index / columns), rows)}]));
}

/** A tree from its edges, with process 0 at the top. A chain is drawn in rows, to and fro. */
function tree(ids, edges) {
  if (isChain(ids, edges)) return {points: chain(ids, edges), edges, directed: false, round: false};
  const points = forest(ids, edges, ids.slice(0, 1));
  const inner = new Set(edges.map(([a, b]) => (points.get(a)?.y < points.get(b)?.y ? a : b)));
  return {points, edges, directed: false, round: false, inner};
}

function neighbours(ids, edges) {
  const near = new Map(ids.map((id) => [id, []]));
  for (const [a, b] of edges) {
    near.get(a)?.push(b);
    near.get(b)?.push(a);
  }
  return near;
}

function isChain(ids, edges) {
  const near = neighbours(ids, edges);
  return ids.length > 3 && edges.length === ids.length - 1 && [...near.values()].every((others) => others.length <= 2);
}

function chain(ids, edges) {
  const near = neighbours(ids, edges);
  let at = ids.find((id) => near.get(id).length === 1) ?? ids[0];
  const order = [];
  const seen = new Set();
  while (at !== undefined) {
    order.push(at);
    seen.add(at);
    at = near.get(at).find((other) => !seen.has(other));
  }
  const columns = order.length <= 5 ? order.length : Math.ceil(order.length / (order.length <= 10 ? 2 : 3));
  const rows = Math.ceil(order.length / columns);
  return new Map(
    order.map((id, index) => {
      const row = Math.floor(index / columns);
      const column = row % 2 === 0 ? index % columns : columns - 1 - (index % columns);
      return [id, {x: columns === 1 ? 0.5 : column / (columns - 1), y: rows === 1 ? 0.5 : row / (rows - 1)}];
    }),
  );
}

/** Trees beside each other, each with its root at the top: leaves have equal distances, parents are above their children. */
function forest(ids, edges, roots) {
  const near = neighbours(ids, edges);
  const spots = new Map();
  let leaf = 0;
  let deepest = 0;
  const visit = (id, depth) => {
    spots.set(id, {x: 0, depth});
    deepest = Math.max(deepest, depth);
    const children = near.get(id).filter((child) => !spots.has(child));
    const xs = [];
    for (const child of children) if (!spots.has(child)) xs.push(visit(child, depth + 1));
    const x = xs.length > 0 ? (xs[0] + xs.at(-1)) / 2 : leaf++;
    spots.get(id).x = x;
    return x;
  };
  for (const id of [...roots, ...ids]) if (!spots.has(id)) visit(id, 0);
  const width = Math.max(1, leaf - 1);
  const height = Math.max(1, deepest);
  const only = leaf === 1;
  return new Map(
    ids.map((id) => {
      const {x, depth} = spots.get(id);
      return [id, {x: only ? 0.5 : x / width, y: deepest === 0 ? 0.5 : depth / height}];
    }),
  );
}

/** The edges that the pointers named `father` make. */
function fathers(processes) {
  return processes.flatMap(({id, picture}) => {
    const part = picture.find(({name, kind}) => name === 'father' && kind === 'pointer');
    return part && part.to !== null && part.to !== id ? [[id, part.to]] : [];
  });
}

function rootsOf(ids, edges) {
  const below = new Set(edges.map(([child]) => child));
  return ids.filter((id) => !below.has(id));
}

// The usual drawing of the plane of order 2: corners, middles of the sides, centre. Its lines are six straight ones and the
// circle through the middles.
const FANO_POINTS = [
  [0.5, 0],
  [0, 0.866],
  [1, 0.866],
  [0.25, 0.433],
  [0.5, 0.866],
  [0.75, 0.433],
  [0.5, 0.577],
];
export const FANO_LINES = [
  [0, 3, 1],
  [1, 4, 2],
  [0, 5, 2],
  [0, 6, 4],
  [1, 6, 5],
  [2, 6, 3],
  [3, 4, 5],
];
export const FANO_CIRCLE = FANO_LINES.length - 1;

function plane(ids, quorums) {
  const slots = ids.length === 7 ? fano(quorums) : null;
  const points = slots ? new Map(slots.map((id, slot) => [id, {x: FANO_POINTS[slot][0], y: FANO_POINTS[slot][1] + 0.06}])) : circle(ids);
  return {points, edges: [], directed: false, round: true, fano: slots};
}

/** The process at each point of the drawing, so that every voting set is a line of it. Null if the sets are no such plane. */
export function fano(quorums) {
  const wanted = new Set(quorums.map(line));
  if (quorums.length !== 7 || wanted.size !== 7 || quorums.some((quorum) => quorum.length !== 3)) return null;
  const slots = [];
  const fits = () =>
    FANO_LINES.every(
      (slotsOfLine) => slotsOfLine.some((slot) => slot >= slots.length) || wanted.has(line(slotsOfLine.map((slot) => slots[slot]))),
    );
  const assign = () => {
    if (slots.length === 7) return true;
    for (let id = 0; id < 7; id += 1) {
      if (slots.includes(id)) continue;
      slots.push(id);
      if (fits() && assign()) return true;
      slots.pop();
    }
    return false;
  };
  return assign() ? slots : null;
}

const line = (ids) => [...ids].sort((a, b) => a - b).join(' ');

/** The places spread over the whole square: three on a circle do not reach its lowest point. */
function spread(points) {
  const axis = (name) => {
    const all = [...points.values()].map((point) => point[name]);
    const least = Math.min(...all);
    const span = Math.max(...all) - least;
    return span < 1e-6 ? () => 0.5 : (point) => (point[name] - least) / span;
  };
  const x = axis('x');
  const y = axis('y');
  return new Map([...points].map(([id, point]) => [id, {x: x(point), y: y(point)}]));
}

/** The places in a box of pixels, with a margin. A round drawing keeps its shape. */
export function fit(places, {width, height, margin, round}) {
  const points = spread(places);
  const inner = {width: Math.max(1, width - margin.left - margin.right), height: Math.max(1, height - margin.top - margin.bottom)};
  if (round) {
    // A circle may become a little flat, and more so if many processes need the room at its sides.
    const flat = places.size > 9 ? 1.7 : 1.25;
    const side = Math.min(inner.width, inner.height);
    inner.spareX = inner.width - Math.min(inner.width, side * flat);
    inner.spareY = inner.height - Math.min(inner.height, side * flat);
  }
  const spareX = inner.spareX ?? 0;
  const spareY = inner.spareY ?? 0;
  return new Map(
    [...points].map(([id, {x, y}]) => [
      id,
      {
        x: margin.left + spareX / 2 + x * (inner.width - spareX),
        y: margin.top + spareY / 2 + y * (inner.height - spareY),
      },
    ]),
  );
}

/** The shortest distance between two places. */
export function closest(points) {
  const all = [...points.values()];
  let least = Infinity;
  for (let i = 0; i < all.length; i += 1) {
    for (let j = i + 1; j < all.length; j += 1) least = Math.min(least, Math.hypot(all[i].x - all[j].x, all[i].y - all[j].y));
  }
  return least;
}
