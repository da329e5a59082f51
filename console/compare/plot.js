// One plot: n against a measure. Dots are runs, lines are formulas. Hover or focus tells the numbers.

import {el, svg} from '../lib/dom.js';
import {number} from '../lib/format.js';
import {runAddress} from '../lib/route.js';
import {hide, show} from '../lib/tooltip.js';
import {MEASURES, apart, scale} from './series.js';

/** On a narrow page the drawing is narrower, so that its text stays readable. */
function sizes() {
  const [width, height] = matchMedia('(max-width: 700px)').matches ? [400, 340] : [620, 380];
  return {width, height, field: {left: width > 500 ? 52 : 34, right: width - (width > 500 ? 186 : 142), top: 14, bottom: height - 38}};
}

export function plot(all, {measure, colours, isLog, specOf}) {
  const {width, height, field} = sizes();
  const {title, axis} = MEASURES[measure];
  const points = all.flatMap((one) => one.points);
  if (points.length === 0) return null;
  // A bound may lie far above everything that was measured. Its line is cut at the edge.
  const values = points.flatMap(({value, theory}) => [value, theory && theory.kind !== 'bound' ? theory.value : value]);
  const clip = `clip-${measure}`;
  const ns = [...new Set(points.map(({n}) => n))].sort((a, b) => a - b);
  const x = scale([ns[0] === ns.at(-1) ? 0 : ns[0], ns.at(-1)], [field.left, field.right], true);
  const y = scale([isLog ? Math.min(...values.filter((value) => value > 0)) : 0, Math.max(...values, 1)], [field.bottom, field.top], isLog);
  const drawn = svg('svg', {class: 'plot', viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': `${title} by number of processes`});
  drawn.append(svg('clipPath', {id: clip}, svg('rect', {x: field.left, y: field.top - 2, width: field.right - field.left + 4, height: field.bottom - field.top + 4})));
  for (const tick of y.ticks) {
    drawn.append(svg('path', {class: 'grid', d: `M${field.left} ${y.at(tick)}H${field.right}`}), svg('text', {class: 'tick', x: field.left - 8, y: y.at(tick) + 4, 'text-anchor': 'end'}, number(tick)));
  }
  let last = -Infinity;
  for (const n of ns) {
    if (x.at(n) - last < 22) continue;
    last = x.at(n);
    drawn.append(svg('text', {class: 'tick', x: last, y: field.bottom + 20, 'text-anchor': 'middle'}, n));
  }
  drawn.append(svg('text', {class: 'tick', x: field.right, y: field.bottom + 34, 'text-anchor': 'end'}, 'processes'));
  const labels = apart(all.map((one) => ({one, y: y.at(one.points.at(-1).value)})), 15, field.top + 4, field.bottom);
  const groups = all.map((one) => group(one, {x, y, colours, specOf, measure, label: labels.find((label) => label.one === one), drawn, clip, all, edge: field.right}));
  drawn.append(...groups);
  return el('figure', {}, el('h3', {}, title, axis === 'T' && el('span', {class: 'unit'}, ' in T')), drawn);
}

function group(one, {x, y, colours, specOf, measure, label, drawn, clip, all, edge}) {
  const line = one.points.filter(({theory}) => theory);
  const trail = (points, value) => points.map((point, at) => `${at ? 'L' : 'M'}${x.at(point.n).toFixed(1)} ${y.at(value(point)).toFixed(1)}`).join('');
  const end = one.points.at(-1);
  const lit = (on) => { for (const other of drawn.querySelectorAll('[data-series]')) other.classList.toggle('dim', on && other.dataset.series !== one.name); };
  const element = svg('g', {class: `series-${colours.get(one.name) ?? 0}`, data: {series: one.name}},
    svg('path', {class: 'leader', d: `M${x.at(end.n) + 6} ${y.at(end.value)}L${edge + 14} ${label.y}`}),
    line.length === 0 && svg('path', {class: 'joins', d: trail(one.points, ({value}) => value)}),
    line.length > 0 && svg('path', {class: `theory ${line.some(({theory}) => theory.kind === 'bound') ? 'dashed' : ''}`, d: trail(line, ({theory}) => theory.value), 'clip-path': `url(#${clip})`}),
    one.points.map((point) => {
      const dot = svg('circle', {class: `point ${point.differs ? 'differs' : ''}`, cx: x.at(point.n), cy: y.at(point.value), r: 4.5});
      const link = svg('a', {href: runAddress(specOf(point.row)), 'aria-label': `${one.name}, n = ${point.n}: ${number(point.value)}${point.theory ? `, in theory ${number(point.theory.value)}` : ''}`}, dot);
      // Dots of other algorithms may lie below this one.
      const covers = all.filter((other) => other !== one && other.points.some(({n, value}) => n === point.n && Math.abs(y.at(value) - y.at(point.value)) < 4));
      const on = () => { show(told(one, point, measure, covers), dot, dot); lit(true); };
      const off = () => { hide(dot); lit(false); };
      for (const event of ['pointerenter', 'focus']) link.addEventListener(event, on);
      for (const event of ['pointerleave', 'blur']) link.addEventListener(event, off);
      return link;
    }),
    svg('text', {class: 'name', x: edge + 18, y: label.y + 4}, one.name));
  const name = element.querySelector('.name');
  name.addEventListener('pointerenter', () => lit(true));
  name.addEventListener('pointerleave', () => lit(false));
  return element;
}

function told(one, {n, value, theory}, measure, covers) {
  const unit = MEASURES[measure].axis === 'T' ? ' T' : '';
  const rows = [['processes', n], ['measured', `${number(value)}${unit}`]];
  if (theory) rows.push([theory.kind === 'bound' ? 'bound' : 'theory', `${number(theory.value)}${unit}`], ['formula', theory.formula]);
  if (covers.length > 0) rows.push(['same place', covers.map(({name}) => name).join(', ')]);
  return [el('b', {}, one.name), el('dl', {class: 'facts'}, rows.flatMap(([name, text]) => [el('dt', {}, name), el('dd', {}, String(text))]))];
}
