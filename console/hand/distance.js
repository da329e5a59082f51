// "How far is a violation from here?" The checker of the server looks for the nearest one. The hint is its first step.

import {isAbort, post} from '../lib/api.js';
import {button, el, fill} from '../lib/dom.js';
import {distanceText, sentence} from './sentence.js';

/**
 * `question()` gives the body of the call. `onHint(action)` shows the next step and returns its text.
 */
export function createDistance({question, onHint}) {
  const said = el('p', {class: 'distance-text', role: 'status', 'aria-live': 'polite'});
  const far = button('How far is a violation?', () => ask(false), {
    class: 'button small',
    title: 'From here, with the faults so far and those of which the rules allow only a few',
  });
  const hint = button('Hint', () => ask(true), {class: 'button small'});
  let asking = null;
  let known = null;

  async function ask(withHint) {
    if (known) {
      tell(withHint);
      return;
    }
    asking?.abort();
    const own = new AbortController();
    asking = own;
    fill(said, el('span', {class: 'busy'}, 'The checker looks …'));
    try {
      const answer = await post('/api/distance', question(), {signal: own.signal});
      if (own !== asking) return;
      known = answer;
      tell(withHint);
    } catch (error) {
      if (!isAbort(error) && own === asking) fill(said, sentence(error.message));
    }
  }

  function tell(withHint) {
    const next = withHint && known.result === 'violated' && known.next;
    fill(said, distanceText(known), next ? [' Next: ', el('b', {}, onHint(known.next)), '.'] : null);
  }

  return {
    element: el('div', {class: 'distance'}, el('div', {class: 'distance-buttons'}, far, hint), said),
    /** Another state is shown: what was said is no longer true. */
    reset() {
      asking?.abort();
      asking = null;
      known = null;
      fill(said);
    },
  };
}
