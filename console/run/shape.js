// The structure of the group at the chosen moment: the drawing of the page for steps by hand, to look at only.

import {N_MAX} from '../hand/rules.js';
import {el} from '../lib/dom.js';
import {createStructure} from '../structure/structure.js';
import {groupOfSource} from './spec.js';

const WORDS = {ring: 'Ring', tree: 'Tree', star: 'Star', grid: 'Grid of voting sets', plane: 'Plane of voting sets', complete: 'Group'};

/** The processes that are paused at a record. */
export function pausedAt({bars}, seq) {
  return new Set(bars.filter(({kind, from, to}) => kind === 'paused' && from.seq <= seq && (!to || to.seq > seq)).map(({process}) => process));
}

/**
 * A foldable drawing. `of(source, scene)` asks for the group, once for each; `show(moment, moving)` draws it at a moment, or as it
 * begins if the moment is null. `element` stays hidden while there is nothing to draw.
 */
export function createShape({api}) {
  const known = new Map();
  let scene = null;
  let group = null;
  const structure = createStructure();
  const name = el('summary', {});
  const element = el('details', {class: 'shape', open: true, hidden: true}, name, structure.element);

  /** The group as it begins, or null: the server refuses a group that cannot be stepped by hand. */
  async function ask(spec) {
    if (spec.n > N_MAX) return null;
    try {
      const answer = await api.post('/api/hand', {spec, actions: []});
      return answer.refused ? null : answer;
    } catch (error) {
      // Without an answer the question stays open, for the next run.
      if (!error.status) known.delete(JSON.stringify(spec));
      return null;
    }
  }

  return {
    element,
    /** Resolves when the group is known, or known not to be drawn. */
    async of(source, itsScene) {
      const spec = groupOfSource(source, itsScene);
      const key = JSON.stringify(spec);
      if (spec && !known.has(key)) known.set(key, ask(spec));
      [scene, group] = [itsScene, null];
      element.hidden = true;
      const found = spec ? await known.get(key) : null;
      if (scene === itsScene) group = found;
    },
    show(moment, moving = false) {
      const state = moment ?? group;
      // A trace may come from a group that is built in another way.
      const isDrawn = group !== null && Array.isArray(state.pending) && state.processes.length === group.processes.length;
      element.hidden = !isDrawn;
      if (!isDrawn) return;
      const {shape} = group.structure;
      name.textContent = `${WORDS[shape] ?? shape}${moment ? '' : ', at the start'}`;
      element.dataset.shape = shape;
      const paused = moment ? pausedAt(scene, moment.seq) : new Set();
      structure.show({structure: group.structure, processes: state.processes, pending: state.pending}, {paused}, moving);
    },
    destroy() {
      structure.destroy();
    },
  };
}
