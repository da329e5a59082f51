// Challenges: break it in as few steps as you can. `#/challenges` lists them, `#/challenge/ID` is one of them.

import {bests, solved} from '../hand/best.js';
import {createBench} from '../hand/bench.js';
import {BadLink} from '../hand/codec.js';
import {isBroken} from '../hand/lamp.js';
import {defaultRules, handAddress, readAddress} from '../hand/rules.js';
import {el, fill} from '../lib/dom.js';
import {plural} from '../lib/format.js';
import {address} from '../lib/route.js';
import {explained} from '../lib/tooltip.js';

export function mount(root, params, shell) {
  const id = params.page === 'challenge' ? params.rest[0] : undefined;
  if (id === undefined) return list(root, params.about, shell);
  const challenge = params.about.challenges.find((candidate) => candidate.id === id);
  return challenge ? one(root, challenge, params, shell) : missing(root, id, shell);
}

function list(root, {challenges}, {setTitle}) {
  setTitle('Challenges');
  const best = bests();
  const done = challenges.filter(({id}) => best.has(id)).length;
  const perfect = challenges.filter(({id, steps}) => best.get(id) <= steps).length;
  fill(
    root,
    el('h1', {}, 'Challenges'),
    el(
      'p',
      {class: 'lead'},
      'Break it in as few steps as you can. Some of these algorithms are wrong on purpose; others are sound, but one of their assumptions is taken away. ',
      'You are the network, the users and the faults. The checker knows the shortest way.',
    ),
    el('p', {class: 'challenge-sum'}, `${done} of ${challenges.length} solved, ${perfect} in the fewest steps.`),
    el(
      'ul',
      {class: 'challenge-cards'},
      challenges.map((challenge) => card(challenge, best.get(challenge.id))),
    ),
  );
  return undefined;
}

function card({id, title, text, algorithm, n, variant, property, steps}, best) {
  const perfect = best !== undefined && best <= steps;
  return el(
    'li',
    {class: `card challenge-card${best === undefined ? '' : perfect ? ' perfect' : ' solved'}`},
    el('p', {class: 'challenge-algorithm'}, [algorithm, variant, `n = ${n}`].filter(Boolean).join(' · ')),
    el('h2', {}, el('a', {href: address('challenge', [id])}, title)),
    el('p', {class: 'challenge-text'}, text),
    el(
      'dl',
      {class: 'challenge-facts'},
      el('div', {}, el('dt', {}, 'break'), el('dd', {}, property)),
      el('div', {}, el('dt', {}, 'shortest'), el('dd', {}, plural(steps, 'step'))),
      el(
        'div',
        {},
        el('dt', {}, 'your best'),
        el('dd', {class: best === undefined ? 'muted' : perfect ? 'good' : null}, best === undefined ? 'not yet' : plural(best, 'step')),
      ),
    ),
  );
}

function one(root, challenge, {query, about}, {replace, setTitle}) {
  const {id, title, text, property, steps: shortest} = challenge;
  setTitle(title);
  const algorithm = about.algorithms.find(({name}) => name === challenge.algorithm);
  const spec = {algorithm: challenge.algorithm, n: challenge.n};
  for (const name of ['variant', 'coordinators', 'votes'])
    if (challenge[name] !== undefined && challenge[name] !== null) spec[name] = challenge[name];
  const none = Object.fromEntries(Object.keys(defaultRules(algorithm)).map((name) => [name, 0]));
  const rules = {...none, fifo: false, ...challenge.rules};
  let asked;
  try {
    asked = readAddress({...query, spec: undefined, rules: undefined}, about.algorithms);
  } catch (error) {
    if (!(error instanceof BadLink)) throw error;
    fill(
      root,
      el('h1', {}, title),
      el('p', {class: 'notice bad', role: 'alert'}, error.message),
      el('p', {}, el('a', {href: address('challenge', [id])}, 'Start this challenge anew')),
    );
    return undefined;
  }
  const target = el('div', {class: 'target card', data: {solved: 'false'}});
  const best = () => bests().get(id);

  function show(state, steps) {
    const broken = state.lamps.find((lamp) => isBroken(lamp) && matches(lamp.property, property));
    target.dataset.solved = String(Boolean(broken));
    if (broken) solved(id, steps);
    fill(
      target,
      el('div', {class: 'target-count'}, el('b', {}, String(steps)), el('span', {}, steps === 1 ? 'step' : 'steps')),
      el(
        'div',
        {class: 'target-words', role: 'status'},
        broken
          ? verdict(steps, broken)
          : [
              el('h2', {}, `Break ${property} in as few steps as you can`),
              el(
                'p',
                {},
                `The shortest way has ${plural(shortest, 'step')}. `,
                best() === undefined ? 'You have not broken it yet.' : `Your best: ${plural(best(), 'step')}.`,
              ),
            ],
      ),
    );
  }

  function verdict(steps, lamp) {
    const enough = steps <= shortest;
    return [
      el('h2', {}, `Solved in ${plural(steps, 'step')} (shortest ${shortest})`),
      lamp.detail && el('p', {}, lamp.detail),
      el(
        'p',
        {},
        enough ? 'No shorter run breaks it. ' : 'There is a shorter way: go back and try another choice. ',
        el('a', {href: address('challenges')}, 'All challenges'),
      ),
    ];
  }

  const bench = createBench({
    spec,
    rules,
    tree: asked.tree,
    paused: asked.paused,
    property,
    replace,
    onState: show,
    addressOf: ({tree, paused}) => handAddress({spec, rules, tree, paused, algorithm, challenge: id}),
  });
  fill(
    root,
    el(
      'header',
      {class: 'hand-head'},
      el(
        'div',
        {},
        el(
          'p',
          {class: 'eyebrow'},
          el('a', {href: address('challenges')}, 'Challenges'),
          el('span', {class: 'plainly'}, ` · ${[spec.algorithm, spec.variant, `n = ${spec.n}`].filter(Boolean).join(' · ')}`),
        ),
        el('h1', {}, title),
      ),
      el('p', {class: 'hand-group'}, explained(text), ' ', el('a', {href: address('algorithm', [spec.algorithm])}, 'How it works')),
    ),
    target,
    bench.element,
  );
  return () => bench.destroy();
}

/** A deadlock breaks liveness, and has no lamp of its own. */
const matches = (lamp, property) => lamp === property || (lamp === 'liveness' && property === 'deadlock');

function missing(root, id, {setTitle}) {
  setTitle('No such challenge');
  fill(
    root,
    el('h1', {}, 'No such challenge'),
    el('p', {class: 'lead'}, `The lab has no challenge "${id}".`),
    el('p', {}, el('a', {href: address('challenges')}, 'All challenges')),
  );
  return undefined;
}
