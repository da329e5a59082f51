// Keys of the page. Pure functions.

export const HELP = [
  ['1 … 9', 'choose a message'],
  ['↑ ↓', 'choose the one before or after'],
  ['Enter', 'deliver the chosen message'],
  ['x', 'lose it'],
  ['c', 'copy it'],
  ['Backspace or ←', 'one step back'],
  ['→', 'one step forward again'],
  ['Home', 'back to the start'],
  ['Esc', 'choose nothing'],
];

/**
 * What a key asks for: `{choose: index}`, `{move: ±1}`, `{go: 'deliver' | ...}`, or null. Fields keep their keys, and a
 * button that has the focus keeps Enter and space.
 */
export function command({key, ctrlKey, metaKey, altKey}, {inField, onButton}) {
  if (ctrlKey || metaKey || altKey || inField) return null;
  if (/^[1-9]$/.test(key)) return {choose: Number(key) - 1};
  switch (key) {
    case 'ArrowDown':
      return {move: 1};
    case 'ArrowUp':
      return {move: -1};
    case 'Enter':
      return onButton ? null : {go: 'deliver'};
    case 'x':
      return {go: 'drop'};
    case 'c':
      return {go: 'duplicate'};
    case 'Backspace':
    case 'ArrowLeft':
      return {go: 'back'};
    case 'ArrowRight':
      return {go: 'forward'};
    case 'Home':
      return {go: 'start'};
    case 'Escape':
      return {go: 'nothing'};
    default:
      return null;
  }
}

/** The message that is chosen next in the list, from none with `null`. */
export function moved(messages, chosen, by) {
  if (messages.length === 0) return null;
  const at = messages.findIndex((message) => message.id === chosen);
  const next = at < 0 ? (by > 0 ? 0 : messages.length - 1) : Math.max(0, Math.min(messages.length - 1, at + by));
  return messages[next].id;
}
