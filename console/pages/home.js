// The first page: what the lab is, the algorithms by family, the scenarios as stories.

import {createDiagram} from '../diagram/diagram.js';
import {button, el, fill} from '../lib/dom.js';
import {sentence} from '../lib/format.js';
import {address, runAddress} from '../lib/route.js';
import {label} from '../lib/tooltip.js';

const HERO = {algorithm: 'ricart-agrawala', n: 3, entries: 3};

/** So many stories are shown at first. */
const FEW = 12;

const WAYS = [
  ['run', 'Run', 'Watch an algorithm in a space-time diagram.'],
  ['hand', 'Step by hand', 'Deliver, drop and delay each message yourself.'],
  ['challenges', 'Challenges', 'Break an algorithm in as few steps as you can.'],
  ['compare', 'Compare', 'Costs of all algorithms, measured beside theory.'],
  ['check', 'Check', 'Try every order of steps, find the shortest fault.'],
  ['trace', 'Open a trace', 'Look at a run of your own.'],
];

const FAMILIES = [
  ['asks everybody', 'Ask everybody', 'A process enters when all others have agreed.'],
  ['asks a quorum', 'Ask a quorum', 'A process needs only some votes. Any two quorums share a voter.'],
  ['passes a token', 'Pass a token', 'One token exists. Its holder may enter.'],
  ['asks a coordinator', 'Ask a coordinator', 'One process decides for all.'],
  ['elections', 'Elections', 'The processes choose a leader, also after crashes.'],
  ['detectors', 'Detectors', 'Which process has crashed? Only silence tells.'],
  ['append', 'Without a lock', 'Records at the end of a replicated file.'],
];

export function mount(root, {about}, {api, setTitle}) {
  setTitle('');
  const stage = el('div', {class: 'bare'});
  const stories = el('ul', {class: 'stories'});
  let all = false;
  const more = button('', () => { all = true; showStories(filter.value); }, {class: 'button'});
  const filter = el('input', {type: 'search', placeholder: 'Find a story', 'aria-label': 'Find a story', on: {input: () => showStories(filter.value)}});
  fill(root,
    el('section', {class: 'hero'},
      el('div', {},
        el('h1', {}, 'Taking turns, with nothing but messages'),
        el('p', {class: 'lead'}, 'Processes that share only messages must take turns, or choose a leader. In this lab you watch every algorithm of Baton do so, step through it by hand, break it, and compare its cost with theory. All runs come from the same code that the simulator, the checker and the real groups use.'),
        el('div', {class: 'row'}, el('a', {class: 'button primary', href: runAddress({...HERO, entries: 9})}, 'Watch a run'), el('a', {class: 'button', href: address('challenges')}, 'Break something'))),
      el('figure', {}, stage, el('figcaption', {}, 'Three processes take turns by the algorithm of Ricart and Agrawala.'))),
    el('nav', {class: 'ways', 'aria-label': 'Ways to use the lab'}, WAYS.map(([page, title, text]) => el('a', {href: address(page)}, el('b', {}, title), el('span', {}, text)))),
    el('div', {class: 'section-title'}, el('h2', {}, 'Algorithms')),
    FAMILIES.map((family) => familyOf(family, about.algorithms)),
    el('section', {class: 'home-stories', id: 'stories'},
      el('div', {class: 'section-title'}, el('h2', {}, 'Stories'), filter),
      el('p', {class: 'muted'}, 'Each story is a run with a point. It plays as told, every time.'), stories, more));

  function showStories(text) {
    const wanted = text.trim().toLowerCase();
    const found = about.scenarios.filter(({title, story, spec}) => `${title} ${story} ${spec.algorithm}`.toLowerCase().includes(wanted));
    const shown = all || wanted ? found : varied(found).slice(0, FEW);
    more.hidden = shown.length === found.length;
    more.textContent = `Show all ${found.length} stories`;
    fill(stories, shown.map(({name, title, story}) => el('li', {}, el('a', {href: address('run', [], {v: 1, scenario: name})}, title), el('p', {}, story.trim()))), found.length === 0 && el('li', {}, el('p', {}, `No story speaks of "${text}".`)));
  }
  showStories('');

  const controller = new AbortController();
  let diagram = null;
  // The picture is an ornament: without it the page says the same.
  api.post('/api/run', {spec: HERO}, {signal: controller.signal}).then(({scene}) => {
    diagram = createDiagram(stage, {name: 'Three processes take turns', bare: true});
    diagram.show(scene);
  }).catch((error) => { if (!api.isAbort(error)) stage.closest('figure').hidden = true; });
  return () => {
    controller.abort();
    diagram?.destroy();
  };
}

function familyOf([card, title, text], algorithms) {
  const healthy = algorithms.filter((algorithm) => algorithm.card === card && !algorithm.cured);
  if (healthy.length === 0) return null;
  return el('section', {class: 'family'}, el('div', {}, el('h3', {}, title), el('p', {}, label(text))),
    el('div', {class: 'cards'}, healthy.map((algorithm) => cardOf(algorithm, algorithms.filter(({cured}) => cured === algorithm.name)))));
}

function cardOf({name, summary, promises, broken}, ills) {
  return el('article', {class: 'algorithm-card'},
    el('h4', {}, el('a', {href: address('algorithm', [name])}, name)),
    el('p', {}, sentence(summary)),
    el('p', {class: 'promised'}, broken ? el('span', {class: 'tag bad'}, 'broken on purpose') : promises.map((promise) => el('span', {class: 'tag'}, promise))),
    ills.length > 0 && el('p', {class: 'ills'}, 'Broken: ', ills.map((ill, at) => [at > 0 && ', ', el('a', {href: address('algorithm', [ill.name])}, shortName(ill.name, name))])));
}

/** One story of each algorithm first, so that the first stories differ. */
function varied(stories) {
  const seen = new Set();
  const isFirst = ({spec}) => !seen.has(spec.algorithm) && seen.add(spec.algorithm);
  const first = new Set(stories.filter(isFirst));
  return [...first, ...stories.filter((story) => !first.has(story))];
}

/** The name of a broken algorithm without the name of the healthy one, if it starts with it. */
const shortName = (ill, healthy) => (ill.startsWith(`${healthy}-`) ? ill.slice(healthy.length + 1) : ill);
