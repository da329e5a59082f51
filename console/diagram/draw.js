// Draws the visible part of a layout on a canvas.

import {drawChosen, drawFar, drawNear, isFar} from './arrows.js';
import {BEHIND, drawBars} from './bars.js';
import {number, short, visible} from '../lib/format.js';
import {Labels} from './labels.js';
import {GUTTER, PALE_TEXT, SANS, dot, line, text, widthOf} from './paint.js';
import {every} from './scale.js';
import {toPixel, toPosition} from './view.js';

export const TOP = 46;
export const BOTTOM = 44;
const FUTURE = 0.26;

/**
 * Draws everything. `frame` is `{width, height, view, plan, seq, hover, colour, laneHeight, scrollY}`; `seq` is the chosen
 * record or null; width and height are those of the canvas in CSS pixels.
 */
export function draw(context, frame) {
  const {width, height, view, plan, colour} = frame;
  const pen = {
    ...frame, context,
    x: (position) => GUTTER + toPixel(view, position),
    y: (lane) => TOP + frame.laneHeight * (lane + 0.5) - frame.scrollY,
    // The lanes in the window, with those that are seen in part.
    lanes: [frame.scrollY / frame.laneHeight - 1, (height + frame.scrollY - TOP) / frame.laneHeight],
    left: toPosition(view, -20), right: toPosition(view, width - GUTTER + 20),
    labels: new Labels(),
    // Alpha of something that begins at record `from`: what has not happened yet is pale.
    alpha: (from) => (frame.seq !== null && from > frame.seq ? FUTURE : 1),
  };
  context.clearRect(0, 0, width, height);
  context.fillStyle = colour.surface;
  context.fillRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, width - GUTTER, height);
  context.clip();
  drawBackground(pen);
  drawLanes(pen);
  const marks = seenMarks(pen);
  // Labels do not cover marks.
  for (const mark of marks.each) pen.labels.take({x: pen.x(mark.x), y: pen.y(mark.lane), width: 9, height: 9});
  const drawAllBars = () => {
    drawBars(pen, BEHIND);
    drawBars(pen, (kind) => !BEHIND(kind));
  };
  // From far away the arrows are one grey, which would hide the bars.
  if (isFar(pen)) {
    drawFar(pen);
    drawAllBars();
  } else {
    drawAllBars();
    drawNear(pen);
  }
  drawChosen(pen);
  if (marks.isFar) drawTicks(pen, marks.each);
  else drawMarks(pen, marks.each);
  drawAxis(pen);
  drawCursor(pen);
  drawViolations(pen);
  context.restore();
  drawNames(pen);
}

function drawBackground({context, x, y, plan, colour, height, left, right, labels, alpha, laneHeight}) {
  if (plan.cycle) {
    const from = x(plan.cycle.x0);
    context.fillStyle = colour.repeat;
    context.fillRect(from, TOP, x(plan.cycle.x1) - from, height);
    text(context, 'from here on, again and again', Math.max(from, GUTTER) + 8, height - 12, colour.muted, '11px', 'left');
  }
  for (const band of plan.bands) {
    if (band.x1 < left || band.x0 > right) continue;
    const [from, to] = [x(band.x0), x(band.x1)];
    context.globalAlpha = 0.1 * alpha(band.seq);
    for (const [lane, side] of band.sides) {
      context.fillStyle = side % 2 ? colour.paused : colour.lost;
      context.fillRect(from, y(lane) - laneHeight / 2, to - from, laneHeight);
    }
    context.globalAlpha = alpha(band.seq);
    context.strokeStyle = colour.lost;
    context.setLineDash([5, 4]);
    line(context, from, TOP - 6, from, height - BOTTOM + 6);
    if (Number.isFinite(band.last)) line(context, to, TOP - 6, to, height - BOTTOM + 6);
    context.setLineDash([]);
    const words = short(visible(band.text), 60);
    context.font = `600 11px ${SANS}`;
    const room = widthOf(context, words);
    const at = Math.max(GUTTER + 4, from + 5);
    labels.take({x: at + room / 2, y: height - 11, width: room, height: 12});
    text(context, words, at, height - 11, colour.lost, '600 11px', 'left', colour.surface);
    context.globalAlpha = 1;
  }
}

function drawLanes({context, y, plan, colour, width, height}) {
  context.strokeStyle = colour.line;
  context.lineWidth = 1;
  plan.scene.processes.forEach((process, lane) => {
    const at = Math.round(y(lane)) + 0.5;
    if (at < TOP - 20 || at > height) return;
    line(context, GUTTER, at, width, at);
  });
}

/** With more marks than this in the window only ticks are drawn. */
const MARKS_MAX = 250;
/** The width of a tick in pixels. */
const TICK = 3;

/** The marks in the window. From far away those that would lie on each other are merged. */
function seenMarks({plan, left, right, view, lanes: [top, bottom]}) {
  const each = [];
  const collect = (mark) => mark.lane !== null && mark.lane >= top && mark.lane <= bottom && each.push(mark);
  const [first, last] = plan.marks.range(left, right);
  const isFar = last - first > MARKS_MAX;
  (isFar ? plan.far.marks.at(TICK / view.k) : plan.marks).visible(left, right, collect);
  return {each, isFar};
}

function drawTicks({context, x, y, colour, alpha}, marks) {
  // The loud ones come last, so that nothing hides them.
  for (const loud of [false, true]) {
    for (const mark of marks) {
      if (LOUD.has(mark.item.kind) !== loud) continue;
      context.globalAlpha = alpha(mark.seq);
      context.fillStyle = hueOf(mark.item.kind, colour);
      context.fillRect(Math.round(x(mark.x)) - 1, Math.round(y(mark.lane)) - 4, TICK, 9);
    }
  }
  context.globalAlpha = 1;
}

const SIGNS = {crash: '✕', recover: '▸', resume: '▸', pause: '‖', write_refused: '✕', violation: '!'};
const LOUD = new Set(['crash', 'violation', 'write_refused', 'partition']);

function hueOf(kind, colour) {
  if (LOUD.has(kind)) return colour.bad;
  return kind === 'suspect' ? colour.waiting : kind === 'elected' ? colour.leads : colour.muted;
}

function drawMarks({context, x, y, colour, labels, alpha, laneHeight}, marks) {
  for (const mark of marks) {
    const {kind} = mark.item;
    const [at, middle] = [x(mark.x), y(mark.lane)];
    context.globalAlpha = alpha(mark.seq);
    const hue = hueOf(kind, colour);
    if (SIGNS[kind]) text(context, SIGNS[kind], at, middle, hue, '700 15px', 'center', colour.surface);
    else dot(context, at, middle, hue, colour.surface);
    const words = short(visible(mark.item.text), 34);
    const height = middle - 16 - 12 * mark.level;
    context.font = `11px ${SANS}`;
    const room = widthOf(context, words);
    // Beside the names of the processes a label moves to the right, so that it can be read.
    const centre = at < GUTTER ? at : Math.max(at, GUTTER + room / 2 + 4);
    // What is violated stands below the lanes.
    if (kind !== 'violation' && laneHeight >= 30 && labels.take({x: centre, y: height, width: room + 4, height: 12})) {
      text(context, words, centre, height, kind === 'suspect' ? colour.muted : hue, '11px', 'center', colour.surface);
    }
    context.globalAlpha = 1;
  }
}

function drawAxis({context, x, plan, colour, width, view, left, right}) {
  context.fillStyle = colour.surface;
  context.fillRect(0, 0, width, TOP - 14);
  context.strokeStyle = colour.axis;
  line(context, GUTTER, TOP - 14.5, width, TOP - 14.5);
  const ticks = plan.ticks;
  const step = ticks.length > 1 ? ((ticks.at(-1).x - ticks[0].x) / (ticks.length - 1)) * view.k : 1;
  const many = every(step, 12);
  let last = -Infinity;
  context.font = `11px ${SANS}`;
  for (let at = Math.floor(first(ticks, left) / many) * many; at < ticks.length && ticks[at].x <= right; at += many) {
    const px = x(ticks[at].x);
    line(context, px, TOP - 18, px, TOP - 11);
    const words = number(ticks[at].t);
    if (px - last >= widthOf(context, words) + 14) {
      text(context, words, px, TOP - 27, colour.muted, '11px', 'center');
      last = px;
    }
  }
  for (const gap of plan.scale.breaks) {
    if (gap.to < left || gap.from > right || (gap.to - gap.from) * view.k < 30) continue;
    const middle = (x(gap.from) + x(gap.to)) / 2;
    context.fillStyle = colour.surface;
    context.fillRect(middle - 6, TOP - 20, 12, 12);
    line(context, middle - 7, TOP - 9, middle - 3, TOP - 20);
    line(context, middle - 1, TOP - 9, middle + 3, TOP - 20);
    if (x(gap.to) - x(gap.from) > 60) text(context, `${number(gap.end - gap.start)} ${plan.scene.unit}`, middle, TOP + 0, colour.muted, 'italic 11px', 'center', colour.surface);
  }
}

const first = (ticks, left) => {
  let low = 0;
  let high = ticks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ticks[middle].x < left) low = middle + 1;
    else high = middle;
  }
  return low;
};

function drawCursor({context, x, plan, colour, seq, height}) {
  if (seq === null) return;
  const at = Math.round(x(plan.xOf(seq))) + 0.5;
  context.strokeStyle = colour.accent;
  context.lineWidth = 1.5;
  line(context, at, TOP - 14, at, height - BOTTOM + 10);
  context.fillStyle = colour.accent;
  context.beginPath();
  context.moveTo(at - 5, TOP - 20);
  context.lineTo(at + 5, TOP - 20);
  context.lineTo(at, TOP - 12);
  context.fill();
  context.lineWidth = 1;
}

function drawViolations({context, x, plan, colour, height, alpha, width}) {
  let last = null;
  for (const violation of plan.violations) {
    const at = Math.round(x(violation.x)) + 0.5;
    // Of those at one pixel the first is enough.
    if (at === last || at < GUTTER - 40 || at > width + 40) continue;
    last = at;
    context.globalAlpha = alpha(violation.seq);
    context.strokeStyle = colour.violation;
    context.lineWidth = 2;
    // What the algorithm does not promise is no fault of it.
    if (violation.item.is_broken_promise === false) context.setLineDash([4, 4]);
    line(context, at, TOP - 14, at, height - BOTTOM + 4);
    context.setLineDash([]);
    context.lineWidth = 1;
    const words = visible(violation.item.property);
    context.font = `700 11px ${SANS}`;
    const room = widthOf(context, words) + 12;
    const from = Math.min(Math.max(at - room / 2, GUTTER + 2), width - room - 2);
    context.fillStyle = colour.violation;
    context.beginPath();
    context.roundRect(from, height - BOTTOM + 3, room, 18, 4);
    context.fill();
    const isPale = alpha(violation.seq) < 1;
    if (isPale) context.globalAlpha = PALE_TEXT;
    text(context, words, from + room / 2, height - BOTTOM + 12, isPale ? colour.ink : colour.surface, '700 11px', 'center');
    context.globalAlpha = 1;
  }
}

function drawNames({context, y, plan, colour, height, laneHeight}) {
  context.fillStyle = colour.surface;
  context.fillRect(0, 0, GUTTER, height);
  text(context, plan.spacing === 'order' ? 'order' : plan.scene.unit, GUTTER - 14, TOP - 27, colour.muted, 'italic 11px', 'right');
  const skip = every(laneHeight, 14);
  plan.scene.processes.forEach((process, lane) => {
    const at = y(lane);
    if (at < TOP || at > height - 4 || lane % skip) return;
    const helper = process.role === 'helper';
    text(context, short(visible(process.name), 8), GUTTER - 14, helper && laneHeight >= 34 ? at - 5 : at, colour.ink, '600 13px', 'right');
    if (helper && laneHeight >= 34) text(context, 'helper', GUTTER - 14, at + 9, colour.muted, '10px', 'right');
  });
}
