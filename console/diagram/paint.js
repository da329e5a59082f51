// Strokes and texts on a canvas.

export const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** The width of the names of the processes, at the left. */
export const GUTTER = 64;

/** Text on something pale, which has not happened yet, is pale too, but can be read. It has the colour of text. */
export const PALE_TEXT = 0.72;

export function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/** Text around its middle height, with a halo so that lines do not cross it. */
export function text(context, words, x, y, colour, font, align, halo) {
  context.font = `${font} ${SANS}`;
  context.textAlign = align;
  context.textBaseline = 'middle';
  if (halo) {
    context.strokeStyle = halo;
    context.lineWidth = 3;
    context.lineJoin = 'round';
    context.strokeText(words, x, y);
    context.lineWidth = 1;
  }
  context.fillStyle = colour;
  context.fillText(words, x, y);
}

const widths = new Map();
/** Texts whose width is remembered: measuring takes longer than drawing. */
const WIDTHS_MAX = 5000;

/** The width of a text in the font of the context. */
export function widthOf(context, words) {
  const key = `${context.font}|${words}`;
  let width = widths.get(key);
  if (width === undefined) {
    width = context.measureText(words).width;
    if (widths.size >= WIDTHS_MAX) widths.clear();
    widths.set(key, width);
  }
  return width;
}

export function dot(context, x, y, colour, halo) {
  context.beginPath();
  context.arc(x, y, 4, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
  context.strokeStyle = halo;
  context.lineWidth = 1.5;
  context.stroke();
  context.lineWidth = 1;
}

export function hatch(context, x, y, width, height) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.lineWidth = 1.2;
  context.beginPath();
  const step = Math.max(6, width / 400);
  for (let at = x - height; at < x + width; at += step) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.strokeRect(x, y, width, height);
  context.restore();
}
