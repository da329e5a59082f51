// Light, dark, or as the system says. The choice stays in this browser.

import {fill} from './dom.js';
import {icon} from './icons.js';

const KEY = 'baton-theme';
const ORDER = ['auto', 'light', 'dark'];
const ICONS = {auto: 'auto', light: 'sun', dark: 'moon'};
const SAID = {auto: 'Colours: as the system', light: 'Colours: light', dark: 'Colours: dark'};

export function startTheme(button) {
  let theme = stored();
  const apply = () => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    fill(button, icon(ICONS[theme]));
    button.setAttribute('aria-label', SAID[theme]);
    button.title = SAID[theme];
  };
  button.addEventListener('click', () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    store(theme);
    apply();
  });
  apply();
}

// A browser may forbid storage; then the choice lasts as long as the page.
function stored() {
  try {
    const theme = localStorage.getItem(KEY);
    return ORDER.includes(theme) ? theme : 'auto';
  } catch {
    return 'auto';
  }
}

function store(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // See above.
  }
}
