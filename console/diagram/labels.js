// Places labels so that they do not cover each other: the first one wins. Pure.

const CELL = 64;

export class Labels {
  cells = new Map();

  /** Whether the box is free; if so, it is taken from now on. The box is `{x, y, width, height}` around its centre. */
  take({x, y, width, height}) {
    const box = {left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2};
    const keys = [];
    for (let column = Math.floor(box.left / CELL); column <= Math.floor(box.right / CELL); column += 1) {
      for (let row = Math.floor(box.top / CELL); row <= Math.floor(box.bottom / CELL); row += 1) keys.push(column * 65_536 + row);
    }
    for (const key of keys) {
      for (const other of this.cells.get(key) ?? []) {
        if (box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom) return false;
      }
    }
    for (const key of keys) {
      const boxes = this.cells.get(key);
      if (boxes) boxes.push(box);
      else this.cells.set(key, [box]);
    }
    return true;
  }
}

/** The box around a text of this width that is turned by `angle`. */
export function turned(x, y, width, height, angle) {
  const [cos, sin] = [Math.abs(Math.cos(angle)), Math.abs(Math.sin(angle))];
  return {x, y, width: width * cos + height * sin, height: width * sin + height * cos};
}

/**
 * Where on an arrow its label stands, as a part of its length: near the sender, where the arrows of one multicast are still
 * apart; a longer arrow has it farther away, because they separate slowly.
 */
export function along(lanes, arrives) {
  return arrives ? 0.3 + 0.1 * Math.min(3, Math.max(0, lanes - 1)) : 0.6;
}
