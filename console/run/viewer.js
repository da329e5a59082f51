// A diagram with the panel of the chosen moment beside it. Pages that show one run use it.

import {createDiagram} from '../diagram/diagram.js';
import {el, fill} from '../lib/dom.js';
import {createMoment} from './moment.js';

/**
 * Shows a scene in `element`. `source` is what moments are asked of, as in `createMoment`, or null; `why` says why there
 * are no moments; `brief` leaves the legend out. Returns `{select(seq), destroy()}`.
 */
export function createViewer(element, {api, scene, source, why = null, name, seq = null, brief = false}) {
  const side = el('aside', {'aria-label': 'The chosen moment'});
  const stage = el('div', {});
  fill(element, el('div', {class: 'run-grid'}, el('section', {class: 'run-one', 'aria-label': name}, stage), side));
  const moment = createMoment(side, {api, brief});
  const diagram = createDiagram(stage, {name, onSelect: (chosen) => moment.at(chosen)});
  diagram.show(scene, {seq});
  moment.of(source, scene, why);
  if (seq !== null) moment.at(seq);
  return {
    select(chosen) {
      diagram.select(chosen);
      moment.at(chosen);
    },
    destroy() {
      moment.destroy();
      diagram.destroy();
    },
  };
}
