// Step by hand: choose a group, then decide each step yourself.

import {createBench} from '../hand/bench.js';
import {BadLink} from '../hand/codec.js';
import {defaultRules, handAddress, readAddress} from '../hand/rules.js';
import {createSetup} from '../hand/setup.js';
import {newTree} from '../hand/tree.js';
import {button, el, fill} from '../lib/dom.js';
import {address} from '../lib/route.js';

const FIRST = {algorithm: 'maekawa', n: 7};

export function mount(root, {query, about}, {navigate, replace, setTitle}) {
  setTitle('Step by hand');
  let asked;
  try {
    asked = readAddress(query, about.algorithms);
  } catch (error) {
    if (!(error instanceof BadLink)) throw error;
    fill(
      root,
      el('h1', {}, 'Step by hand'),
      el('p', {class: 'notice bad', role: 'alert'}, error.message),
      el('p', {}, el('a', {href: address('hand')}, 'Start with a group of your own')),
    );
    return undefined;
  }
  const algorithm = about.algorithms.find(({name}) => name === (asked.spec ?? FIRST).algorithm) ?? about.algorithms[0];
  const spec = asked.spec ?? {...FIRST, algorithm: algorithm.name};
  const rules = asked.rules ?? defaultRules(algorithm);
  setTitle(`${spec.algorithm} by hand`);

  const onStart = (group, limits) => {
    const chosen = about.algorithms.find(({name}) => name === group.algorithm);
    navigate(handAddress({spec: group, rules: limits, tree: newTree(), paused: [], algorithm: chosen}));
  };
  const setup = createSetup({algorithms: about.algorithms, spec, rules, onStart});
  setup.id = 'setup';
  setup.hidden = true;
  const change = button(
    'Choose group and rules',
    () => {
      setup.hidden = !setup.hidden;
      change.setAttribute('aria-expanded', String(!setup.hidden));
    },
    {class: 'button small', 'aria-expanded': String(!setup.hidden), 'aria-controls': 'setup'},
  );
  const bench = createBench({
    spec,
    rules,
    tree: asked.tree,
    paused: asked.paused,
    replace,
    addressOf: ({tree, paused}) => handAddress({spec, rules, tree, paused, algorithm}),
  });
  fill(
    root,
    el(
      'header',
      {class: 'hand-head'},
      el('div', {}, el('p', {class: 'eyebrow'}, 'Step by hand'), el('h1', {}, spec.algorithm)),
      el(
        'p',
        {class: 'hand-group'},
        groupText(spec, rules),
        ' ',
        el('a', {href: address('algorithm', [spec.algorithm])}, 'How it works'),
        change,
      ),
    ),
    setup,
    !asked.spec &&
      el(
        'p',
        {class: 'lead hand-lead'},
        'You are the users, the network and the faults. Let a process ask, then decide which message arrives next. After each step every property is checked.',
      ),
    bench.element,
  );
  return () => bench.destroy();
}

/** The group in a line: `3 processes, grid, links in any order.` */
function groupText({n, variant}, {fifo}) {
  return [
    n === undefined ? null : `${n} ${n === 1 ? 'process' : 'processes'}`,
    variant,
    fifo ? 'links keep the order' : 'links in any order',
  ]
    .filter(Boolean)
    .join(', ')
    .concat('.');
}
