// The colours of the canvas: read from the page's style, so that light and dark and the palette are said in one place only.

const NAMES = ['surface', 'card', 'ink', 'muted', 'line', 'axis', 'accent', 'good', 'bad', 'waiting', 'inside', 'leads', 'down', 'paused', 'message', 'app', 'lost', 'violation', 'repeat', 'on-accent'];

export function colours(element) {
  const style = getComputedStyle(element);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Calls `changed` when the reader switches between light and dark. Returns a function that ends this. */
export function onThemeChange(changed) {
  const query = matchMedia('(prefers-color-scheme: dark)');
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, {attributes: true, attributeFilter: ['data-theme']});
  query.addEventListener('change', changed);
  return () => {
    observer.disconnect();
    query.removeEventListener('change', changed);
  };
}
