// One plot: n against a measure. Dots are runs, lines are formulas. Hover or focus tells the numbers.

import {el, svg} from '../lib/dom.js';
import {number} from '../lib/format.js';
import {runAddress} from '../lib/route.js';
import {hide, show} from '../lib/tooltip.js';
import {MEASURES, apart, scale} from './series.js';

const [WIDTH, HEIGHT] = [620, 340];
const FIELD = {left: 52, right: WIDTH - 178, top: 14, bottom: HEIGHT - 38};

export function plot(all, {measure, colours, isLog, specOf}) {
  const {title, axis} = MEASURES[measure];
  const points = all.flatMap((one) => one.points);
  if (points.length === 0) return null;
  const values = points.flatMap(({value, theory}) => [value, theory?.value ?? value]);
  const ns = [...new Set(points.map(({n}) => n))].sort((a, b) => a - b);
  const x = scale([ns[0] === ns.at(-1) ? 0 : ns[0], ns.at(-1)], [FIELD.left, FIELD.right], true);
  const y = scale([isLog ? Math.min(...values.filter((value) => value > 0)) : 0, Math.max(...values, 1)], [FIELD.bottom, FIELD.top], isLog);
  const drawn = svg('svg', {class: 'plot', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'group', 'aria-label': `${title} by number of processes`});
  for (const tick of y.ticks) {
    drawn.append(svg('path', {class: 'grid', d: `M${FIELD.left} ${y.at(tick)}H${FIELD.right}`}), svg('text', {class: 'tick', x: FIELD.left - 8, y: y.at(tick) + 4, 'text-anchor': 'end'}, number(tick)));
  }
  let last = -Infinity;
  for (const n of ns) {
    if (x.at(n) - last < 22) continue;
    last = x.at(n);
    drawn.append(svg('text', {class: 'tick', x: last, y: FIELD.bottom + 20, 'text-anchor': 'middle'}, n));
  }
  drawn.append(svg('text', {class: 'tick', x: FIELD.right, y: FIELD.bottom + 34, 'text-anchor': 'end'}, 'processes'), svg('text', {class: 'tick', x: FIELD.left - 8, y: FIELD.top - 3, 'text-anchor': 'end'}, axis === 'T' ? 'T' : ''));
  const labels = apart(all.map((one) => ({one, y: y.at(one.points.at(-1).value)})), 15, FIELD.top + 4, FIELD.bottom);
  const groups = all.map((one) => group(one, {x, y, colours, specOf, measure, label: labels.find((label) => label.one === one), drawn}));
  drawn.append(...groups);
  return el('figure', {}, el('h3', {}, title), drawn);
}

function group(one, {x, y, colours, specOf, measure, label, drawn}) {
  const line = one.points.filter(({theory}) => theory);
  const path = line.map(({n, theory}, at) => `${at ? 'L' : 'M'}${x.at(n).toFixed(1)} ${y.at(theory.value).toFixed(1)}`).join('');
  const lit = (on) => { for (const other of drawn.querySelectorAll('[data-series]')) other.classList.toggle('dim', on && other.dataset.series !== one.name); };
  const element = svg('g', {class: `series-${colours.get(one.name) ?? 0}`, data: {series: one.name}},
    line.length > 0 && svg('path', {class: `theory ${line.some(({theory}) => theory.kind === 'bound') ? 'dashed' : ''}`, d: path}),
    one.points.map((point) => {
      const dot = svg('circle', {class: `point ${point.differs ? 'differs' : ''}`, cx: x.at(point.n), cy: y.at(point.value), r: 4.5});
      const link = svg('a', {href: runAddress(specOf(point.row)), 'aria-label': `${one.name}, n = ${point.n}: ${number(point.value)}${point.theory ? `, in theory ${number(point.theory.value)}` : ''}`}, dot);
      const on = () => { show(told(one, point, measure), dot, dot); lit(true); };
      const off = () => { hide(dot); lit(false); };
      for (const event of ['pointerenter', 'focus']) link.addEventListener(event, on);
      for (const event of ['pointerleave', 'blur']) link.addEventListener(event, off);
      return link;
    }),
    svg('text', {class: 'name', x: FIELD.right + 12, y: label.y + 4}, one.name));
  const name = element.querySelector('.name');
  name.addEventListener('pointerenter', () => lit(true));
  name.addEventListener('pointerleave', () => lit(false));
  return element;
}

function told(one, {n, value, theory}, measure) {
  const unit = MEASURES[measure].axis === 'T' ? ' T' : '';
  const rows = [['processes', n], ['measured', `${number(value)}${unit}`]];
  if (theory) rows.push([theory.kind === 'bound' ? 'bound' : 'theory', `${number(theory.value)}${unit}`], ['formula', theory.formula]);
  return [el('b', {}, one.name), el('dl', {class: 'facts'}, rows.flatMap(([name, text]) => [el('dt', {}, name), el('dd', {}, String(text))]))];
}
