// The tree of branches as a drawing: a dot for each step, the shown run in colour, one click goes anywhere.

import {button, el, fill, svg} from '../lib/dom.js';
import {plural, short} from '../lib/format.js';
import {words} from './action.js';
import {NAME_MAX, branchOf, countBranches, layout, pathTo, shownPath} from './tree.js';

const COLUMN = 18;
const ROW = 24;
const LEFT = 14;
const TOP = 14;

/** `goTo(id)`, `rename(id, name)` and `remove(id)` change the tree; `textOf(id)` and `isBroken(id)` tell what is known of a step. */
export function createBranches({goTo, rename, remove: removeBranch, textOf, isBroken}) {
  const title = el('h2', {}, 'Steps');
  const picture = svg('svg', {class: 'branches', role: 'group', 'aria-label': 'Steps and branches'});
  const scroll = el('div', {class: 'scroll branches-scroll'}, picture);
  const note = el('span', {class: 'muted'});
  const name = el('input', {
    type: 'text',
    maxlength: NAME_MAX,
    'aria-label': 'Name of this branch',
    placeholder: 'name this branch',
    class: 'branch-name',
    autocomplete: 'off',
  });
  let shown = null;
  name.addEventListener('change', () => shown !== null && rename(branchOf(shown, shown.current), name.value.trim()));
  const remove = button('Remove branch', () => removeBranch(branchOf(shown, shown.current)), {class: 'small quiet danger'});
  const tools = el('div', {class: 'branch-tools'}, name, remove);

  function dot(tree, id, {column, row}, onWay) {
    const node = tree.nodes[id];
    const isShown = id === tree.current;
    const text = id === 0 ? 'Start' : `Step ${node.depth}: ${textOf(id) ?? words(node.action)}`;
    const classes = ['branch-dot', onWay && 'on-way', isShown && 'shown', isBroken(id) && 'broken'];
    const go = () => goTo(id);
    return svg(
      'g',
      {
        class: classes.filter(Boolean).join(' '),
        transform: `translate(${LEFT + column * COLUMN} ${TOP + row * ROW})`,
        role: 'button',
        tabindex: isShown ? '0' : '-1',
        'aria-label': text,
        'aria-current': isShown ? 'step' : null,
        data: {node: id},
        on: {
          click: go,
          keydown: (event) => {
            if (event.key === 'Enter' || event.key === ' ') {
              event.preventDefault();
              event.stopPropagation();
              go();
            }
          },
        },
      },
      svg('title', {}, text),
      svg('circle', {class: 'branch-touch', r: 9}),
      svg('circle', {r: isShown ? 7 : 5}),
    );
  }

  return {
    element: el('section', {class: 'card branches-card'}, el('div', {class: 'branches-head'}, title, note, tools), scroll),
    show(tree) {
      shown = tree;
      const focused = picture.contains(document.activeElement);
      const {places, columns, rows} = layout(tree);
      const way = new Set(shownPath(tree));
      const past = new Set(pathTo(tree, tree.current));
      const width = LEFT * 2 + (columns - 1) * COLUMN + 160;
      const height = TOP * 2 + (rows - 1) * ROW;
      picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
      picture.setAttribute('width', width);
      picture.setAttribute('height', height);
      const at = (id) => ({x: LEFT + places.get(id).column * COLUMN, y: TOP + places.get(id).row * ROW});
      const lines = [];
      const names = [];
      for (const [id] of places) {
        const node = tree.nodes[id];
        if (node.parent !== null) {
          const from = at(node.parent);
          const to = at(id);
          const d =
            from.y === to.y
              ? `M${from.x} ${from.y}H${to.x}`
              : `M${from.x} ${from.y}C${from.x + COLUMN * 0.6} ${from.y} ${from.x} ${to.y} ${to.x} ${to.y}`;
          lines.push(svg('path', {class: past.has(id) ? 'branch-line on-way' : way.has(id) ? 'branch-line ahead' : 'branch-line', d}));
        }
        if (node.children.length === 0 && id !== 0) {
          const called = tree.nodes[branchOf(tree, id)].name;
          if (called) names.push(svg('text', {class: 'branch-label', x: at(id).x + 13, y: at(id).y + 4}, short(called, 24)));
        }
      }
      fill(
        picture,
        lines,
        [...places].map(([id, place]) => dot(tree, id, place, past.has(id))),
        names,
      );
      const branch = branchOf(tree, tree.current);
      const ways = countBranches(tree);
      note.textContent =
        ways > 1
          ? `${plural(ways, 'branch', 'branches')}. Click a step to go there; another choice there starts a new branch.`
          : tree.nodes.length > 1
            ? 'Click a step to go there. Another choice there starts a branch.'
            : 'Nothing has happened yet.';
      tools.hidden = branch === null || ways < 2;
      if (document.activeElement !== name) name.value = branch === null ? '' : tree.nodes[branch].name;
      if (focused) picture.querySelector('.shown')?.focus({preventScroll: true});
      const x = at(tree.current).x;
      if (x < scroll.scrollLeft + 40 || x > scroll.scrollLeft + scroll.clientWidth - 60) scroll.scrollLeft = x - scroll.clientWidth / 2;
    },
  };
}
