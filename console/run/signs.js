// The signs that the diagram of a run has. Pure functions.

/** The signs of a scene: `[sign, text]`. */
export function signsOf(scene) {
  const bars = new Set(scene.bars.map(({kind}) => kind));
  const marks = new Set(scene.marks.map(({kind}) => kind));
  const isElection = bars.has('leads') || marks.has('elected') || marks.has('no_leader');
  // Only record append has waiting bars that end with an offset, and no critical section.
  const appends = scene.bars.some(({kind, label}) => kind === 'waiting' && label?.startsWith('offset'));
  const waits = appends ? 'the offset of its record' : !isElection ? 'the critical section' : bars.has('inside') ? 'the critical section, or for a leader' : 'a leader';
  const {arrows} = scene;
  const lost = ({fate}) => Boolean(fate?.lost);
  const unpromised = (violation) => violation.is_broken_promise === false;
  return [
    [bars.has('waiting'), 'waiting', `waits for ${waits}`],
    [bars.has('inside'), 'inside', 'is in the critical section, with its fence'],
    [bars.has('leads'), 'leads', 'believes that it leads'],
    [bars.has('down'), 'down', 'is down, from ✕ (crash) to ▸ (recovery)'],
    [bars.has('paused'), 'paused', 'is paused, from ‖ to ▸'],
    [arrows.some((arrow) => !arrow.is_app && !lost(arrow)), 'message', 'a message'],
    [arrows.some((arrow) => arrow.is_app && !lost(arrow)), 'app', 'a message of the application'],
    [arrows.some(lost), 'lost', 'a message that is lost'],
    [marks.has('elected'), 'dot-leads', 'learns of a leader'],
    [marks.has('no_leader'), 'dot', '“no leader”: knows of no leader any more'],
    [marks.has('suspect'), 'dot-waiting', 'suspects a process'],
    [marks.has('trust'), 'dot', 'trusts a process again'],
    [marks.has('timer'), 'dot', 'a timer goes off'],
    [marks.has('write_accepted'), 'dot', 'the store accepts a write'],
    [marks.has('write_refused'), 'refused', 'the store refuses a write'],
    [marks.has('partition'), 'partition', 'the network is cut, each side in its shade'],
    [scene.cycle !== null && scene.cycle !== undefined, 'repeat', 'repeats for ever'],
    [scene.violations.some((violation) => !unpromised(violation)), 'violation', 'a property is violated here'],
    [scene.violations.some(unpromised), 'unpromised', 'a property is violated that is not promised'],
  ].flatMap(([isThere, sign, text]) => (isThere ? [[sign, text]] : []));
}
