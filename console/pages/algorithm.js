// What an algorithm does, promises and costs; a prepared run; and how it breaks. The text is the page of the documentation.

import {el, fill} from '../lib/dom.js';
import {sentence} from '../lib/format.js';
import {VERSION, address, runAddress} from '../lib/route.js';
import {explainIn, explained} from '../lib/tooltip.js';
import {createViewer} from '../run/viewer.js';
import {counterparts} from '../run/spec.js';

/** The title of the claims, also in the pages of the documentation. */
const SAID = 'Said and measured';

export function mount(root, {rest, about}, {api, setTitle}) {
  const [name] = rest;
  const algorithm = about.algorithms.find((known) => known.name === name);
  if (!algorithm) {
    setTitle('No such algorithm');
    fill(root, el('h1', {}, 'No such algorithm'), el('p', {class: 'lead'}, `The lab knows no algorithm "${name ?? ''}".`), el('p', {}, el('a', {href: address('home')}, 'All algorithms')));
    return undefined;
  }
  setTitle(name);
  const controller = new AbortController();
  const {signal} = controller;
  const prose = el('article', {class: 'prose'}, el('p', {class: 'busy'}, 'The page is being read.'));
  const demo = el('section', {class: 'algorithm-demo', 'aria-label': 'A prepared run'});
  const claims = el('section', {class: 'claims', hidden: true});
  const links = el('div', {class: 'row'});
  let close = () => {};
  fill(root,
    el('h1', {}, name, algorithm.broken && el('span', {class: 'tag bad'}, 'broken on purpose')),
    el('p', {class: 'lead'}, explained(sentence(algorithm.summary))),
    links, demo, el('div', {class: 'columns'}, prose, sideOf(algorithm, about.algorithms)), claims);
  showLinks({algorithm: name, n: 3}, null);

  function showLinks(spec, breaks) {
    fill(links,
      el('a', {class: 'button primary', href: runAddress(spec)}, 'Run it'),
      el('a', {class: 'button', href: address('hand', [], {v: VERSION, spec: JSON.stringify({algorithm: name, n: Math.min(3, spec.n ?? 3)})})}, 'Step by hand'),
      el('a', {class: 'button', href: address('check', [], {v: VERSION, spec: JSON.stringify({algorithm: name})})}, 'Check it'),
      breaks && el('a', {class: 'button', title: breaks.title, href: breaks.kind === 'challenge' ? address('challenge', [breaks.id]) : address('run', [], {v: VERSION, scenario: breaks.name})}, breaks.kind === 'challenge' ? 'Break it yourself' : 'See it break'));
  }

  async function read() {
    const {html, demo: spec, breaks} = await api.get(`/api/algorithms/${encodeURIComponent(name)}`, {signal});
    const page = document.createElement('template');
    page.innerHTML = html;
    prose.replaceChildren(page.content);
    explainIn(prose);
    // What may be wider than the page can be scrolled with the keyboard.
    for (const wide of prose.querySelectorAll('pre, table')) wide.tabIndex = 0;
    showLinks(spec ?? {algorithm: name, n: 3}, breaks);
    if (spec) await watch(spec);
  }

  async function watch(spec) {
    const {scene} = await api.post('/api/run', {spec}, {signal});
    const stage = el('div', {});
    fill(demo, stage);
    const viewer = createViewer(stage, {api, scene, source: {spec}, name: `A run of ${name}`, brief: true});
    close = viewer.destroy;
  }

  const page = read().catch((error) => { if (!api.isAbort(error)) fill(prose, el('p', {class: 'notice bad', role: 'alert'}, error.message)); });
  api.get(`/api/algorithms/${encodeURIComponent(name)}/claims`, {signal}).then(async (answer) => {
    await page;
    showClaims(claims, answer.claims, prose);
  }).catch((error) => {
    // Not every algorithm has claims to compare; the page is complete without them.
    if (!api.isAbort(error) && error.status !== 404) fill(claims, el('p', {class: 'notice bad'}, error.message));
  });
  return () => {
    controller.abort();
    close();
  };
}

function sideOf(algorithm, algorithms) {
  const others = counterparts(algorithm, algorithms);
  const rows = [
    ['Promises', algorithm.promises], ['Assumes', algorithm.assumes],
  ];
  return el('aside', {class: 'aside-card', 'aria-label': 'Facts'},
    el('div', {class: 'card'}, el('dl', {}, rows.flatMap(([title, values]) => [el('dt', {}, title), el('dd', {}, values.length ? values.map((value) => el('div', {}, explained(value))) : 'nothing')]))),
    others.length > 0 && el('div', {class: 'card'}, el('h3', {}, algorithm.broken ? 'The cure' : 'Broken on purpose'), others.map((other) => el('p', {}, el('a', {href: address('algorithm', [other.name])}, other.name), el('br'), el('span', {class: 'muted'}, other.summary)))),
    algorithm.variants.length > 0 && el('div', {class: 'card'}, el('h3', {}, 'Variants'), algorithm.variants.map(({name, summary}) => el('p', {}, el('code', {}, name), el('br'), el('span', {class: 'muted'}, summary)))));
}

/**
 * A table: what the documents say, what was measured, the verdict, and the command. The page of the documentation has the same
 * table without links, so it is taken out of there.
 */
function showClaims(element, claims, prose) {
  if (!claims?.length) return;
  const title = [...prose.querySelectorAll('h2')].find((heading) => heading.textContent.trim() === SAID);
  while (title?.nextElementSibling && title.nextElementSibling.tagName !== 'H2') title.nextElementSibling.remove();
  title?.remove();
  element.hidden = false;
  fill(element, el('h2', {}, SAID), el('p', {class: 'muted'}, 'What the documents say, and what the code of this lab measured.'),
    el('div', {class: 'scroll'}, el('table', {},
      el('thead', {}, el('tr', {}, ['Claim', 'Documents', 'Measured', 'Verdict', 'Command'].map((title) => el('th', {scope: 'col'}, title)))),
      el('tbody', {}, claims.map(({subject, documents, measured, verdict, why, command, spec}) => el('tr', {},
        el('td', {}, subject), el('td', {}, documents), el('td', {}, measured, why && el('div', {class: 'muted'}, why)), el('td', {}, el('span', {class: `tag ${verdict === 'true' ? 'good' : 'bad'}`}, verdict === 'true' ? 'true' : 'not so')),
        el('td', {}, spec ? el('a', {href: runAddress(spec)}, el('code', {}, command)) : el('code', {}, command))))))));
}
