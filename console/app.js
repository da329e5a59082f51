// The shell: finds the page of the address, mounts it, and keeps navigation, title and theme in step.

import * as api from './lib/api.js';
import {el, fill} from './lib/dom.js';
import {address, parse} from './lib/route.js';
import {startTheme} from './lib/theme.js';
import {hide, install} from './lib/tooltip.js';

const PAGES = {
  home: () => import('./pages/home.js'),
  run: () => import('./pages/run.js'),
  hand: () => import('./pages/hand.js'),
  trace: () => import('./pages/trace.js'),
  algorithm: () => import('./pages/algorithm.js'),
  compare: () => import('./pages/compare.js'),
  check: () => import('./pages/check.js'),
  challenges: () => import('./pages/challenges.js'),
  challenge: () => import('./pages/challenges.js'),
};
const SECTION = {challenge: 'challenges'};

const main = document.getElementById('main');
let unmount = () => {};
let shown = 0;

/** What a page may do besides its own work. `navigate` goes to an address; `replace` only notes the page's state in it. */
const shell = {
  api,
  navigate: (hash) => { location.hash = hash; },
  // Unlike a new hash, a replaced one causes no event, so the page is not mounted again.
  replace: (hash) => history.replaceState(null, '', hash),
  setTitle: (title) => { document.title = title ? `${title} · Baton lab` : 'Baton lab'; },
};

async function show() {
  const turn = ++shown;
  hide();
  const {page, rest, query} = parse(location.hash);
  unmount();
  unmount = () => {};
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.page === (SECTION[page] ?? page)) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  // On a phone the navigation is wider than the page.
  document.querySelector('nav [aria-current]')?.scrollIntoView({block: 'nearest', inline: 'center'});
  const root = el('div', {class: `page page-${Object.hasOwn(PAGES, page) ? page : 'missing'}`});
  fill(main, root);
  scrollTo(0, 0);
  // After the first page, whoever uses a screen reader or the keyboard goes on at the content.
  if (turn > 1) main.focus({preventScroll: true});
  try {
    const about = await api.aboutLab();
    install(about.glossary);
    document.getElementById('version').textContent = `Baton ${about.version}`;
    if (!Object.hasOwn(PAGES, page)) return missing(root, page);
    const {mount} = await PAGES[page]();
    if (turn !== shown) return undefined;
    unmount = mount(root, {page, rest, query, about}, shell) ?? (() => {});
  } catch (error) {
    if (turn === shown) fill(root, el('h1', {}, 'This page cannot be shown'), el('p', {class: 'notice bad', role: 'alert'}, error.message));
  }
  return undefined;
}

function missing(root, page) {
  shell.setTitle('No such page');
  fill(root, el('h1', {}, 'No such page'), el('p', {class: 'lead'}, `The lab has no page "${page}".`), el('p', {}, el('a', {href: address('home')}, 'To the first page')));
}

addEventListener('hashchange', show);
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
startTheme(document.getElementById('theme'));
show();
