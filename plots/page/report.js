// Tabs, folds, tables that sort and filter, and what a mark says when pointed at. Without it the page shows everything
// but the timelines (timelines.js), one after the other.
(function () {
  'use strict';
  function all(selector, root) { return Array.from((root || document).querySelectorAll(selector)); }
  function make(tag, text, parent) {
    var element = document.createElement(tag);
    if (text) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }
  function button(text, label, parent, action) {
    var element = make('button', text, parent);
    element.type = 'button';
    if (label) element.setAttribute('aria-label', label);
    element.addEventListener('click', action);
    return element;
  }

  // What the reader chose stands in the address, so that it stays on reload and in links:
  // #PLACE?theme=dark&SECTION=TAB.
  var root = document.documentElement;
  function place() { return location.hash.slice(1).split('?')[0]; }
  var chosen = new URLSearchParams(location.hash.split('?')[1] || '');
  function remember(key, text) {
    if (key) chosen.set(key, text);
    if (String(chosen)) history.replaceState(null, '', '#' + place() + '?' + chosen);
  }

  // Light and dark.
  if (chosen.get('theme')) root.dataset.theme = chosen.get('theme');
  var theme = button('light / dark', 'Switch between light and dark', null, function () {
    var dark = root.dataset.theme ? root.dataset.theme === 'dark'
                                  : window.matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    remember('theme', root.dataset.theme);
    document.dispatchEvent(new Event('themechange'));
  });
  theme.id = 'theme';
  var main = document.querySelector('main');
  main.insertBefore(theme, main.firstChild);

  // One panel of a section at a time.
  function choose(section, panel) {
    all(':scope > .panel', section).forEach(function (other) { other.classList.toggle('shown', other === panel); });
    all(':scope > .tabs button', section).forEach(function (tab) {
      tab.setAttribute('aria-selected', String(tab.panel === panel));
    });
  }
  all('.section').forEach(function (section) {
    var panels = all(':scope > .panel', section);
    if (panels.length < 2) return;
    var tabs = document.createElement('div');
    tabs.className = 'tabs';
    tabs.setAttribute('role', 'tablist');
    panels.forEach(function (panel) {
      var tab = button(panel.dataset.tab, '', tabs, function () {
        choose(section, panel);
        remember(section.id, panel.dataset.tab);
      });
      tab.setAttribute('role', 'tab');
      tab.panel = panel;
    });
    section.insertBefore(tabs, panels[0]);
    section.classList.add('tabbed');
    choose(section, panels.filter(function (panel) {
      return panel.dataset.tab === chosen.get(section.id);
    })[0] || panels[0]);
  });

  // Many sections begin folded; a link into one opens it.
  var sections = all('details.section');
  if (sections.length > 6) sections.slice(3).forEach(function (section) { section.open = false; });
  function reveal(element) {
    for (var at = element; at; at = at.parentElement) {
      if (at.tagName === 'DETAILS') at.open = true;
      if (at.classList.contains('panel')) choose(at.parentElement, at);
    }
  }
  function follow() {
    var target = place() && document.getElementById(decodeURIComponent(place()));
    if (target) { reveal(target); target.scrollIntoView(); }
    remember();  // a link within the page has the place alone
  }
  window.addEventListener('hashchange', follow);
  window.addEventListener('beforeprint', function () {
    all('details').forEach(function (fold) { if (!fold.open) { fold.open = true; fold.folds = true; } });
  });
  window.addEventListener('afterprint', function () {
    all('details').forEach(function (fold) { if (fold.folds) { fold.open = false; fold.folds = false; } });
  });

  // Tables.
  var units = {B: 1, KiB: 1024, MiB: 1048576, GiB: 1073741824, TiB: 1099511627776, 'µs': 1e-6, ms: 1e-3, s: 1,
    min: 60, h: 3600};
  function value(cell) {
    if (!cell) return '';
    if (cell.dataset.v) return Number(cell.dataset.v);
    var text = (cell.firstChild && cell.firstChild.nodeType === 3 ? cell.firstChild.data : cell.textContent).trim();
    var found = /^([-+]?[0-9][0-9,]*\.?[0-9]*(?:e[-+]?[0-9]+)?)\s*([A-Za-zµ]*)/.exec(text);
    return found ? Number(found[1].replace(/,/g, '')) * (units[found[2]] || 1) : text === '–' ? '' : text;
  }
  function sort(table, column, heading) {
    var down = heading.getAttribute('aria-sort') === 'ascending';
    all('th', table).forEach(function (other) { other.removeAttribute('aria-sort'); });
    heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    var body = table.tBodies[0], rows = all(':scope > tr', body);
    var keyed = rows.map(function (row) { return {row: row, key: value(row.cells[column])}; });
    keyed.sort(function (a, b) {
      if (a.key === '' || b.key === '') return (a.key === '') - (b.key === '');
      var order = typeof a.key === 'number' && typeof b.key === 'number' ? a.key - b.key
        : String(a.key).localeCompare(String(b.key), undefined, {numeric: true});
      return down ? -order : order;
    });
    keyed.forEach(function (entry) { body.appendChild(entry.row); });
  }
  function filter(table, text) {
    var words = text.toLowerCase().split(/\s+/).filter(Boolean);
    all(':scope > tr', table.tBodies[0]).forEach(function (row) {
      var content = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return content.indexOf(word) >= 0; });
    });
  }
  all('table.sort').forEach(function (table) {
    all('thead th', table).forEach(function (heading, column) {
      var inner = make('button');
      inner.type = 'button';
      while (heading.firstChild) inner.appendChild(heading.firstChild);
      heading.appendChild(inner);
      inner.addEventListener('click', function () { sort(table, column, heading); });
    });
    if (table.tBodies[0].rows.length < 6) return;
    var box = document.createElement('input');
    box.type = 'search';
    box.placeholder = 'filter: words that a row has';
    box.setAttribute('aria-label', 'Filter the table');
    box.addEventListener('input', function () { filter(table, box.value); });
    table.box = box;
    table.parentElement.parentElement.insertBefore(box, table.parentElement);
  });
  all('a[data-records]').forEach(function (link) {
    link.addEventListener('click', function () {
      var place = document.getElementById(link.hash.slice(1)), table = place && place.querySelector('table.sort');
      if (table) {
        if (table.box) table.box.value = link.dataset.records;
        filter(table, link.dataset.records);
      }
      if (location.hash === link.hash) follow();
    });
  });

  // What a mark stands for.
  var tip = make('div', '', document.body);
  tip.id = 'tip';
  tip.hidden = true;
  function show(event) {
    var mark = event.target.closest && event.target.closest('.chart svg [aria-label]');
    var label = mark && mark.getAttribute('aria-label');
    if (event.target.tagName === 'CANVAS') return;  // which tells by itself
    if (!label || /axis|legend|^Title/.test(label)) { tip.hidden = true; return; }
    tell(words(label), event);
  }
  function words(label) {
    return label.split('; ').filter(function (line) { return !/: NaN$/.test(line); }).join('\n')
      .replace(/-?\d+\.\d{3,}/g, function (digits) {
        return Number(digits).toLocaleString('en-US', {maximumSignificantDigits: 4});
      });
  }
  function tell(text, event) {
    tip.textContent = text;
    tip.hidden = false;
    var wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - wide - 8)) + 'px';
    tip.style.top = Math.max(4, event.clientY + 16 + high > innerHeight ? event.clientY - high - 8
                                                                        : event.clientY + 16) + 'px';
  }
  document.addEventListener('pointermove', show);
  document.addEventListener('pointerdown', show);
  document.addEventListener('scroll', function () { tip.hidden = true; }, true);

  // Systems keep their colours; on the dark page those that would hardly be seen are lighter.
  function luminance(color) {
    return [1, 3, 5].reduce(function (sum, at, k) {
      var c = parseInt(color.slice(at, at + 2), 16) / 255;
      return sum + [0.2126, 0.7152, 0.0722][k] * (c <= 0.04045 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4));
    }, 0);
  }
  function lighter(color) {
    var paper = luminance(getComputedStyle(root).getPropertyValue('--paper').trim());
    for (var share = 0; share < 1; share += 0.1) {
      var mixed = '#' + [1, 3, 5].map(function (at) {
        var c = parseInt(color.slice(at, at + 2), 16);
        return Math.round(c + share * (255 - c)).toString(16).padStart(2, '0');
      }).join('');
      if ((luminance(mixed) + 0.05) / (paper + 0.05) >= 3) return mixed;
    }
    return color;
  }
  function recolor() {
    var dark = getComputedStyle(root).colorScheme === 'dark';
    all('.chart .role-mark path, .chart .role-legend-symbol path').forEach(function (mark) {
      ['fill', 'stroke'].forEach(function (kind) {
        var color = mark.getAttribute(kind);
        if (/^#[0-9a-f]{6}$/i.test(color || '')) mark.style[kind] = dark ? lighter(color) : '';
      });
    });
    all('td .swatch').forEach(function (swatch) {
      swatch.dataset.color = swatch.dataset.color || swatch.getAttribute('style').split(':')[1];
      swatch.style.background = dark ? lighter(swatch.dataset.color) : swatch.dataset.color;
    });
  }
  document.addEventListener('themechange', recolor);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolor);
  recolor();

  window.sluicePage = {all: all, make: make, button: button, tell: tell, words: words,
    hide: function () { tip.hidden = true; }};
  follow();
  root.dataset.ready = '1';
})();
