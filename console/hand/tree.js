// The tree of branches: every step that was tried, and the one that is shown. A value: each function returns a new tree.
//
// A node: {id, parent, depth, action, key, children, last, name}. Node 0 is the start and has no action. `last` is the child
// that was shown most recently, so that "forward" repeats what "back" undid. A removed node is null.

import {visible} from '../lib/format.js';
import {key} from './action.js';

/** The server takes no longer run. */
export const STEPS_MAX = 2000;
export const NODES_MAX = 5000;
export const NAME_MAX = 40;

export function newTree() {
  return {nodes: [{id: 0, parent: null, depth: 0, action: null, key: '', children: [], last: null, name: ''}], current: 0};
}

/** Takes a step from the shown node. A step that was tried before leads to the same node. */
export function step(tree, action) {
  const here = tree.nodes[tree.current];
  const wanted = key(action);
  const known = here.children.find((child) => tree.nodes[child].key === wanted);
  if (known !== undefined) return goTo(tree, known);
  const id = tree.nodes.length;
  const nodes = [...tree.nodes];
  nodes[here.id] = {...here, children: [...here.children, id], last: id};
  nodes.push({id, parent: here.id, depth: here.depth + 1, action, key: wanted, children: [], last: null, name: ''});
  return {nodes, current: id};
}

export function canStep(tree) {
  return tree.nodes[tree.current].depth < STEPS_MAX && tree.nodes.length <= NODES_MAX;
}

/** Shows another node. The way to it is what "forward" repeats later. */
export function goTo(tree, id) {
  if (!tree.nodes[id]) return tree;
  const nodes = [...tree.nodes];
  for (let at = nodes[id]; at.parent !== null; at = nodes[at.parent]) {
    if (nodes[at.parent].last === at.id) continue;
    nodes[at.parent] = {...nodes[at.parent], last: at.id};
  }
  return {nodes, current: id};
}

export function back(tree) {
  const {parent} = tree.nodes[tree.current];
  return parent === null ? tree : {...tree, current: parent};
}

export function forward(tree) {
  const {last} = tree.nodes[tree.current];
  return last === null ? tree : {...tree, current: last};
}

/** The nodes from the start to `id`, both included. */
export function pathTo(tree, id) {
  const path = [];
  for (let at = id; at !== null; at = tree.nodes[at].parent) path.push(at);
  return path.reverse();
}

export function actionsTo(tree, id) {
  return pathTo(tree, id)
    .slice(1)
    .map((node) => tree.nodes[node].action);
}

/** The shown run with what "forward" would repeat: the nodes from the start to the end of the shown branch. */
export function shownPath(tree) {
  const path = pathTo(tree, tree.current);
  for (let at = tree.nodes[tree.current].last; at !== null; at = tree.nodes[at].last) path.push(at);
  return path;
}

/** The first step after the last fork before `id`: the step that carries the name of the branch. Null on the start. */
export function branchOf(tree, id) {
  let at = tree.nodes[id];
  if (at.parent === null) return null;
  while (at.parent !== 0 && tree.nodes[at.parent].children.length < 2) at = tree.nodes[at.parent];
  return at.id;
}

/** A name from a link may have characters that cannot be seen; they become their codes. */
export function rename(tree, id, name) {
  const nodes = [...tree.nodes];
  nodes[id] = {...nodes[id], name: [...visible(name)].slice(0, NAME_MAX).join('')};
  return {...tree, nodes};
}

/** Removes a node and all steps after it. If the shown node is among them, its place takes the node before. */
export function remove(tree, id) {
  const {parent} = tree.nodes[id];
  if (parent === null) return tree;
  const nodes = [...tree.nodes];
  const gone = new Set();
  const rest = [id];
  while (rest.length > 0) {
    const next = rest.pop();
    gone.add(next);
    rest.push(...nodes[next].children);
    nodes[next] = null;
  }
  const children = nodes[parent].children.filter((child) => child !== id);
  const last = nodes[parent].last === id ? (children[0] ?? null) : nodes[parent].last;
  nodes[parent] = {...nodes[parent], children, last};
  return {nodes, current: gone.has(tree.current) ? parent : tree.current};
}

export function countBranches(tree) {
  return tree.nodes.filter((node) => node !== null && node.children.length === 0).length;
}

/**
 * Where each node is drawn: its column is its depth, and a branch keeps to one row. The first branch of a fork stays
 * in the row of the fork; each further branch takes the first row below that is free from the fork to its end.
 */
export function layout(tree) {
  const places = new Map();
  /** For each row the taken columns, as [from, to]. */
  const taken = [];
  const endOf = (id) => {
    let at = tree.nodes[id];
    while (at.children.length > 0) at = tree.nodes[at.children[0]];
    return at.depth;
  };
  const isFree = (row, from, to) => !(taken[row] ?? []).some(([start, end]) => start <= to && from <= end);
  const rest = [{id: 0, above: -1}];
  while (rest.length > 0) {
    const {id, above} = rest.shift();
    const start = tree.nodes[id];
    const from = Math.max(0, start.depth - 1);
    const to = endOf(id);
    let row = above + 1;
    while (!isFree(row, from, to)) row += 1;
    (taken[row] ??= []).push([from, to]);
    for (let at = start; at !== undefined; at = tree.nodes[at.children[0]]) {
      places.set(at.id, {column: at.depth, row});
      rest.push(...at.children.slice(1).map((child) => ({id: child, above: row})));
    }
  }
  const columns = Math.max(...[...places.values()].map((place) => place.column)) + 1;
  return {places, columns, rows: taken.length};
}
