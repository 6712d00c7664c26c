// The script of report.html: tabs, folds, tables that sort and filter, and what a mark says when pointed at. Without it
// the page shows everything but the timelines (page_timelines.cpp), one after the other.
#include "plots/page_parts.h"

namespace sluice {

const char* const kPageScript = R"js(
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

  // Light and dark.
  var root = document.documentElement;
  function remember(key, text) { try { sessionStorage.setItem(location.pathname + key, text); } catch (e) {} }
  function remembered(key) {
    try { return sessionStorage.getItem(location.pathname + key); } catch (e) { return null; }
  }
  if (remembered('theme')) root.dataset.theme = remembered('theme');
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
        remember('tab-' + section.id, panel.dataset.tab);
      });
      tab.setAttribute('role', 'tab');
      tab.panel = panel;
    });
    section.insertBefore(tabs, panels[0]);
    section.classList.add('tabbed');
    choose(section, panels.filter(function (panel) {
      return panel.dataset.tab === remembered('tab-' + section.id);
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
    var target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) { reveal(target); target.scrollIntoView(); }
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
    tell(label.split('; ').join('\n').replace(/-?\d+\.\d{4,}/g, function (digits) {
      return String(Number(Number(digits).toPrecision(4)));
    }), event);
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

  // On a narrow screen a chart is small until it is enlarged: then it scrolls in its frame.
  all('figure:not(.timeline) figcaption').forEach(function (caption) {
    button('enlarge', '', caption, function () { caption.parentElement.classList.toggle('large'); })
      .className = 'enlarge';
  });

  window.sluicePage = {all: all, make: make, button: button, tell: tell, hide: function () { tip.hidden = true; }};
  follow();
  root.dataset.ready = '1';
})();
)js";

}  // namespace sluice
