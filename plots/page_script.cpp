// The script of report.html: tabs, folds, tables that sort and filter, what a mark says when pointed at, and timelines
// that zoom. All of it is comfort: without it the page shows everything, one after the other.
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
  var theme = button('light / dark', 'Switch between light and dark', null, function () {
    var dark = root.dataset.theme ? root.dataset.theme === 'dark'
                                  : window.matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
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
      var tab = button(panel.dataset.tab, '', tabs, function () { choose(section, panel); });
      tab.setAttribute('role', 'tab');
      tab.panel = panel;
    });
    section.insertBefore(tabs, panels[0]);
    section.classList.add('tabbed');
    choose(section, panels[0]);
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
  var hidden = /^(order|ink|color|shade|top|bottom|drawn|framed|centre|middle|text|x|y)$/;
  function show(event) {
    var mark = event.target.closest && event.target.closest('.chart svg [aria-label]');
    var label = mark && mark.getAttribute('aria-label');
    if (!label || /axis|legend|^Title/.test(label)) { tip.hidden = true; return; }
    tip.textContent = label.split('; ').filter(function (part) {
      return !hidden.test(part.split(':')[0]);
    }).join('\n');
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
  all('figcaption').forEach(function (caption) {
    button('enlarge', '', caption, function () { caption.parentElement.classList.toggle('large'); })
      .className = 'enlarge';
  });

  // Timelines: the time axis zooms and moves, ranks stay.
  function zoomable(figure) {
    var svg = figure.querySelector('svg'), back = svg && svg.querySelector('.root .background');
    var size = back && /h([0-9.]+)v([0-9.]+)/.exec(back.getAttribute('d'));
    var axis = svg && svg.querySelector('[aria-label^="X-axis"]');
    var domain = axis && /from ([-0-9.,e]+) to ([-0-9.,e]+)/.exec(axis.getAttribute('aria-label'));
    if (!size || !domain) return;
    var width = Number(size[1]), height = Number(size[2]), longest = Number(domain[2].replace(/,/g, ''));
    var space = svg.namespaceURI, zoom = 1, left = 0;  // left: in pixels of the whole timeline
    var clip = document.createElementNS(space, 'clipPath'), box = document.createElementNS(space, 'rect');
    clip.id = figure.id + '-frame';
    box.setAttribute('width', width);
    box.setAttribute('height', height);
    clip.appendChild(box);
    svg.appendChild(clip);
    function place(element) {
      var found = /translate\(([-0-9.e]+),([-0-9.e]+)\)/.exec(element.getAttribute('transform') || '');
      return {element: element, x: found ? Number(found[1]) : 0, y: found ? found[2] : '0'};
    }
    var shapes = [], texts = [];
    all('.role-mark', svg).forEach(function (group) {
      var frame = document.createElementNS(space, 'g');
      frame.setAttribute('clip-path', 'url(#' + clip.id + ')');
      group.parentNode.insertBefore(frame, group);
      frame.appendChild(group);
      if (group.classList.contains('mark-text')) all('text', group).forEach(function (t) { texts.push(place(t)); });
      else shapes.push(group);
    });
    // Micro-batches of ops that have no room for their number until they are zoomed.
    var named = {}, bare = [], words = [];
    texts.forEach(function (t) { named[Math.round(t.x)] = true; });
    shapes.forEach(function (group) {
      all('path[aria-label]', group).forEach(function (op) {
        var box = /M([-0-9.]+),([-0-9.]+)h([-0-9.]+)v([-0-9.]+)/.exec(op.getAttribute('d'));
        var micro = /micro-batch ([0-9]+)/.exec(op.getAttribute('aria-label'));
        if (!box || !micro) return;
        var middle = Number(box[1]) + Number(box[3]) / 2;
        if (named[Math.round(middle)] && Number(box[3]) > 8) return;
        bare.push({x: middle, y: Number(box[2]) + Number(box[4]) / 2 + 3, width: Number(box[3]), text: micro[1],
          group: group});
      });
    });
    function name_ops() {
      words.forEach(function (word) { word.remove(); });
      words = [];
      bare.forEach(function (op) {
        var at = (op.x - left) * zoom;
        if (zoom === 1 || at < 0 || at > width || op.width * zoom < 6.5 * op.text.length + 2) return;
        var word = document.createElementNS(space, 'text');
        word.textContent = op.text;
        word.setAttribute('text-anchor', 'middle');
        word.setAttribute('font-size', '10px');
        word.setAttribute('fill', 'white');
        word.setAttribute('transform', 'translate(' + at + ',' + op.y + ')');
        op.group.parentNode.appendChild(word);
        words.push(word);
      });
    }
    var ticks = all('.role-axis-tick line', axis).map(place), labels = all('.role-axis-label text', axis).map(place);
    function draw() {
      left = Math.max(0, Math.min(left, width - width / zoom));
      shapes.forEach(function (group) {
        group.setAttribute('transform', 'matrix(' + zoom + ',0,0,1,' + -left * zoom + ',0)');
      });
      texts.forEach(function (t) {
        t.element.setAttribute('transform', 'translate(' + (t.x - left) * zoom + ',' + t.y + ')');
      });
      name_ops();
      var from = left / width * longest, span = longest / zoom, rough = span / Math.max(1, labels.length - 1);
      var step = Math.pow(10, Math.floor(Math.log10(rough)));
      step *= [1, 2, 5, 10].filter(function (k) { return k * step >= rough * 0.999; })[0];
      var digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
      labels.forEach(function (label, k) {
        var at = (Math.ceil(from / step - 1e-9) + k) * step, x = (at - from) / span * width, off = x > width + 0.5;
        label.element.textContent = at.toFixed(digits);
        [label, ticks[k]].forEach(function (part) {
          if (!part) return;
          part.element.setAttribute('transform', 'translate(' + x + ',' + part.y + ')');
          part.element.style.display = off ? 'none' : '';
        });
      });
      ticks.slice(labels.length).forEach(function (tick) { tick.element.style.display = 'none'; });
      figure.classList.toggle('zoomed', zoom > 1);
      figure.dataset.zoom = String(zoom);
    }
    function set(factor, centre) {  // centre: share of the width that stays where it is
      var next = Math.max(1, Math.min(64, zoom * factor));
      left += centre * width * (1 / zoom - 1 / next);
      zoom = next;
      draw();
    }
    var bar = document.createElement('div');
    bar.className = 'zoom';
    button('+', 'Zoom in', bar, function () { set(2, 0.5); });
    button('−', 'Zoom out', bar, function () { set(0.5, 0.5); });
    button('◂', 'Earlier', bar, function () { left -= width / zoom / 2; draw(); });
    button('▸', 'Later', bar, function () { left += width / zoom / 2; draw(); });
    make('small', 'drag moves, Ctrl and the wheel zoom; point at an op for its details', bar);
    figure.insertBefore(bar, figure.firstChild);
    function share(event) {
      var frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
      var plot = back.getBoundingClientRect();
      return {at: (event.clientX - plot.left) / (width * scale), scale: scale};
    }
    svg.addEventListener('wheel', function (event) {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      set((event.deltaY || event.deltaX) < 0 ? 1.25 : 0.8, Math.max(0, Math.min(1, share(event).at)));
    }, {passive: false});
    var from = null;
    svg.addEventListener('pointerdown', function (event) { from = event.clientX; });
    window.addEventListener('pointerup', function () { from = null; });
    window.addEventListener('pointermove', function (event) {
      if (from === null || zoom === 1) return;
      left -= (event.clientX - from) / share(event).scale / zoom;
      from = event.clientX;
      draw();
    });
  }
  all('figure.timeline').forEach(zoomable);
  follow();
  root.dataset.ready = '1';
})();
)js";

}  // namespace sluice
