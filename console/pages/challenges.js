// Challenges: break it in as few steps as you can. `#/challenges` lists them, `#/challenge/ID` is one of them.

import {createBench} from '../hand/bench.js';
import {bests} from '../hand/best.js';
import {BadLink} from '../hand/codec.js';
import {handAddress, readAddress} from '../hand/rules.js';
import {brokenProperty} from '../hand/sentence.js';
import {createTarget} from '../hand/target.js';
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

function list(root, {challenges, algorithms}, {setTitle}) {
  setTitle('Challenges');
  const best = bests();
  const done = challenges.filter(({id}) => best.has(id)).length;
  const perfect = challenges.filter(({id, steps}) => best.get(id) <= steps).length;
  const isBroken = ({algorithm}) => Boolean(algorithms.find(({name}) => name === algorithm)?.broken);
  const group = (title, of) => [
    el('h2', {class: 'challenge-group'}, title),
    el('ul', {class: 'challenge-cards'}, ...of.map((challenge) => card(challenge, best.get(challenge.id)))),
  ];
  fill(
    root,
    el('h1', {}, 'Challenges'),
    el(
      'p',
      {class: 'lead'},
      'Break it in as few steps as you can. You are the users, the network and the faults. The checker knows the shortest way, ',
      'tells how far away a violation is, and gives a hint when asked.',
    ),
    el('p', {class: 'challenge-sum'}, `${done} of ${challenges.length} solved, ${perfect} in the fewest steps.`),
    group('Wrong on purpose', challenges.filter(isBroken)),
    group(
      'Sound, but an assumption is taken away',
      challenges.filter((challenge) => !isBroken(challenge)),
    ),
  );
  return undefined;
}

function card({id, title, text, algorithm, n, variant, property, steps}, best) {
  const perfect = best !== undefined && best <= steps;
  const fact = (name, value, tone = null) => el('div', {}, el('dt', {}, name), el('dd', {class: tone}, value));
  return el(
    'li',
    {class: `card challenge-card${best === undefined ? '' : perfect ? ' perfect' : ' solved'}`},
    el('p', {class: 'challenge-algorithm'}, groupText(algorithm, variant, n)),
    el('h3', {}, el('a', {href: address('challenge', [id])}, title)),
    el('p', {class: 'challenge-text'}, text),
    el(
      'dl',
      {class: 'challenge-facts'},
      fact('break', brokenProperty(property)),
      fact('shortest', plural(steps, 'step')),
      best === undefined ? fact('your best', 'not yet', 'muted') : fact('your best', plural(best, 'step'), perfect ? 'good' : null),
    ),
  );
}

function one(root, challenge, {query, about}, {replace, setTitle}) {
  const {id, title, text, algorithm, n, variant, rules, property, entries} = challenge;
  setTitle(title);
  let asked;
  try {
    asked = readAddress({v: query.v, a: query.a, p: query.p}, about.algorithms);
  } catch (error) {
    if (!(error instanceof BadLink)) throw error;
    const anew = el('p', {}, el('a', {href: address('challenge', [id])}, 'Start this challenge anew'));
    fill(root, el('h1', {}, title), el('p', {class: 'notice bad', role: 'alert'}, error.message), anew);
    return undefined;
  }
  const target = createTarget(challenge);
  const bench = createBench({
    spec: {algorithm, n, ...(variant ? {variant} : {})},
    rules,
    tree: asked.tree,
    paused: asked.paused,
    goal: {property, entries},
    replace,
    onState: target.show,
    addressOf: ({tree, paused}) => handAddress({tree, paused, challenge: id}),
  });
  const above = el(
    'p',
    {class: 'eyebrow'},
    el('a', {href: address('challenges')}, 'Challenges'),
    el('span', {class: 'plainly'}, ` · ${groupText(algorithm, variant, n)}`),
  );
  const story = el('p', {class: 'hand-group'}, explained(text), ' ', el('a', {href: address('algorithm', [algorithm])}, 'How it works'));
  fill(root, el('header', {class: 'hand-head'}, el('div', {}, above, el('h1', {}, title)), story), target.element, bench.element);
  return () => bench.destroy();
}

const groupText = (algorithm, variant, n) => [algorithm, variant, `n = ${n}`].filter(Boolean).join(' · ');

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
