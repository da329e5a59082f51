// The run that the page shows: the tree of steps, and the server's answers for them. The server keeps nothing, so every
// question carries all actions; the answers of recent steps are kept here, and going back needs no question.

import {isAbort, post} from '../lib/api.js';
import {sentence} from './sentence.js';
import * as trees from './tree.js';

/** An answer holds the whole run so far, so only some are kept. */
const KEPT_MAX = 60;

/**
 * `onShow(state, {before, moving})` gets each new state with the state of the step before it; `onProblem(sentence | null)`;
 * `onBusy(bool)`.
 */
export function createSession({spec, rules, tree: first, onShow, onProblem, onBusy}) {
  let tree = first;
  const answers = new Map();
  /** What the log said of each step, kept for the tree of branches. */
  const told = new Map();
  let asking = null;
  let shownNode = null;

  function keep(id, answer) {
    answers.delete(id);
    answers.set(id, answer);
    if (answers.size > KEPT_MAX) answers.delete(answers.keys().next().value);
  }

  async function ask(id, signal) {
    if (answers.has(id)) {
      keep(id, answers.get(id));
      return answers.get(id);
    }
    const answer = await post('/api/hand', {spec, rules, actions: trees.actionsTo(tree, id)}, {signal});
    const path = trees.pathTo(tree, id);
    answer.log.forEach(({text, violations}, index) => told.set(path[index], {text, broken: violations.length > 0}));
    if (answer.refused) return answer;
    if (answer.lamps.some(({state}) => state === 'stuck')) told.set(id, {...told.get(id), broken: true});
    keep(id, answer);
    return answer;
  }

  /** Shows the current node. A refused step is taken out of the tree. */
  async function show(moving) {
    asking?.abort();
    const own = new AbortController();
    asking = own;
    const wanted = tree.current;
    const slow = setTimeout(() => onBusy(true), 150);
    let state;
    try {
      state = await ask(wanted, own.signal);
    } catch (error) {
      if (!isAbort(error) && own === asking) unanswered(error);
      return;
    } finally {
      clearTimeout(slow);
      if (own === asking) onBusy(false);
    }
    if (own !== asking) return;
    if (state.refused) {
      refuse(wanted, state.refused);
      await show(false);
      return;
    }
    const {parent} = tree.nodes[wanted];
    const before = parent === null ? null : (answers.get(parent) ?? null);
    const near = shownNode !== null && tree.nodes[shownNode] && (tree.nodes[shownNode].parent === wanted || parent === shownNode);
    shownNode = wanted;
    onShow(state, {before, moving: moving && near});
  }

  /** A step without an answer is not shown: the page stays where it was. */
  function unanswered(error) {
    onProblem(sentence(error.message));
    if (shownNode !== null && tree.nodes[shownNode]) tree = {...tree, current: shownNode};
    onShow(null, {before: null, moving: false});
  }

  /** Takes a step that is not possible, and all after it, out of the tree. */
  function refuse(wanted, {index, why}) {
    const bad = trees.pathTo(tree, wanted)[index + 1] ?? wanted;
    onProblem(`Step ${tree.nodes[bad].depth} is not possible: ${why}.`);
    tree = trees.remove(tree, bad);
  }

  function change(next, moving = true) {
    if (next === tree) return undefined;
    tree = next;
    onProblem(null);
    return show(moving);
  }

  return {
    get tree() {
      return tree;
    },
    /** Whether a step has been taken whose state is not shown yet. */
    isAhead: () => tree.current !== shownNode,
    actions: () => trees.actionsTo(tree, tree.current),
    start: () => show(false),
    step(action) {
      if (!trees.canStep(tree)) {
        onProblem(`A run by hand has at most ${trees.STEPS_MAX} steps.`);
        return undefined;
      }
      return change(trees.step(tree, action));
    },
    back: () => change(trees.back(tree)),
    forward: () => change(trees.forward(tree)),
    goTo: (id) => change(trees.goTo(tree, id)),
    rename: (id, name) => change(trees.rename(tree, id, name), false),
    remove: (id) => change(trees.remove(tree, id), false),
    textOf: (id) => told.get(id)?.text,
    isBroken: (id) => told.get(id)?.broken ?? false,
    stop: () => asking?.abort(),
  };
}
