// Draws the timelines of the report on a canvas each, from the data in the page (Timeline::data, plots/charts.h), once
// they are in sight. Buttons, drag and Ctrl with the wheel zoom and move the time axis; ranks stay. Uses what report.js
// leaves in window.sluicePage.
(function () {
  'use strict';
  var page = window.sluicePage;
  var TOP = 6, FOOT = 34, LANE = 0.7, GAP = 1.5;  // pixels, but LANE: share of a row above its lane
  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function seconds(s) {
    var unit = [['s', 1], ['ms', 1e-3]].filter(function (u) { return Math.abs(s) >= u[1]; })[0] || ['us', 1e-6];
    return Number((s / unit[1]).toPrecision(4)) + ' ' + unit[0];
  }

  function timeline(figure) {
    var data = JSON.parse(figure.querySelector('script').textContent), boxes = data.boxes, count = boxes.rank.length;
    var canvas = figure.querySelector('canvas'), tick = data.seconds / data.ticks;
    var row = data.lanes || boxes.version ? 36 : 26, height = TOP + data.ranks * row + FOOT;
    var zoom = 1, first = 0, drawn = false;  // first: seconds at the left edge
    function left() { return Math.min(64, canvas.clientWidth * 0.16); }
    function plot() { return canvas.clientWidth - left() - 8; }
    function x(s) { return left() + (s - first) / (data.axis / zoom) * plot(); }
    function span(k) {  // top and height of a box
      var y = TOP + boxes.rank[k] * row, foot = data.lanes ? LANE * row : row - GAP, half = (foot - GAP) / 2;
      return boxes.place[k] === 3 ? [y + LANE * row + 1, row * (1 - LANE) - 3]
        : boxes.place[k] === 1 ? [y + GAP, half]
        : boxes.place[k] === 2 ? [y + GAP + half, half] : [y + GAP, foot - GAP];
    }
    function draw() {
      drawn = true;
      var ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, g = canvas.getContext('2d');
      canvas.style.height = height + 'px';
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      g.scale(ratio, ratio);
      g.textBaseline = 'middle';
      g.font = '13px Helvetica, Arial, sans-serif';
      first = Math.max(0, Math.min(first, data.axis * (1 - 1 / zoom)));
      var ink = css('--ink'), soft = css('--soft'), idle = css('--idle'), end = Math.min(x(data.seconds), width - 8);
      for (var r = 0; r < data.ranks; ++r) {
        var y = TOP + r * row, foot = data.lanes ? LANE * row : row - GAP;
        g.fillStyle = soft;
        g.textAlign = 'right';
        g.fillText('rank ' + r, left() - 6, y + foot / 2, left() - 6);
        g.fillStyle = idle;
        if (end > left()) g.fillRect(left(), y + GAP, end - left(), foot - GAP);
      }
      g.save();
      g.beginPath();
      g.rect(left(), 0, plot(), height);
      g.clip();
      g.textAlign = 'center';
      for (var k = 0; k < count; ++k) {
        var a = x(boxes.start[k] * tick), w = boxes.length[k] * tick / (data.axis / zoom) * plot();
        if (a + w < left() || a > width) continue;
        var at = span(k), kind = opKinds[boxes.kind[k]];
        g.globalAlpha = Math.max(0.5, 1 - 0.25 * boxes.chunk[k]);
        g.fillStyle = kind[1];
        g.fillRect(a, at[0], Math.max(0.5, w - (w > 3 ? 0.7 : 0)), at[1]);
        g.globalAlpha = 1;
        var micro = /[FBIWR]([0-9.]+)$/.exec(boxes.text[k]), version = boxes.version && boxes.version[k];
        if (!micro || w < 6.5 * micro[1].length + 2 || at[1] < 9) continue;
        g.fillStyle = boxes.chunk[k] > 0 ? '#111' : kind[2];
        var middle = Math.max(a, left()) / 2 + Math.min(a + w, width) / 2;
        var two = version !== null && version !== undefined;
        g.font = '10px Helvetica, Arial, sans-serif';
        g.fillText(micro[1], middle, at[0] + at[1] * (two ? 0.32 : 0.54));
        if (!two) continue;
        g.font = '10px Helvetica, Arial, sans-serif';
        g.fillText('v' + version, middle, at[0] + at[1] * 0.76);
      }
      data.slowed.forEach(function (band) {
        g.fillStyle = 'rgba(178, 34, 34, 0.18)';
        g.fillRect(x(band[1] * tick), TOP + band[0] * row, x(band[2] * tick) - x(band[1] * tick), row);
      });
      g.strokeStyle = ink;
      g.lineWidth = 1.5;
      g.beginPath();
      data.path.forEach(function (box) {
        var at = span(box), y = at[0] + at[1] - 1;
        g.lineTo(x(boxes.start[box] * tick), y);
        g.lineTo(x((boxes.start[box] + boxes.length[box]) * tick), y);
      });
      g.stroke();
      g.restore();
      g.font = '13px Helvetica, Arial, sans-serif';
      g.fillStyle = soft;
      var shown = data.axis / zoom, rough = shown / Math.max(2, plot() / 110);
      var step = Math.pow(10, Math.floor(Math.log10(rough)));
      step *= [1, 2, 5, 10].filter(function (f) { return f * step >= rough; })[0];
      var foot_y = TOP + data.ranks * row;
      g.textAlign = 'center';
      for (var n = Math.ceil(first / step - 1e-9); n * step <= first + shown * 1.000001; ++n) {
        g.fillRect(x(n * step), foot_y + 1, 1, 5);
        if (x(n * step) + 24 < width) g.fillText(n === 0 ? '0' : seconds(n * step), x(n * step), foot_y + 15);
      }
      figure.classList.toggle('zoomed', zoom > 1);
      figure.dataset.zoom = String(zoom);
      figure.dataset.first = String(first);
    }
    function set(factor, centre) {  // centre: share of the width that stays where it is
      var next = Math.max(1, Math.min(256, zoom * factor));
      first += centre * data.axis * (1 / zoom - 1 / next);
      zoom = next;
      draw();
    }
    function move(share) { first += share * data.axis / zoom; draw(); }
    var bar = page.make('div');
    bar.className = 'zoom';
    page.button('+', 'Zoom in', bar, function () { set(2, 0.5); });
    page.button('−', 'Zoom out', bar, function () { set(0.5, 0.5); });
    page.button('◂', 'Earlier', bar, function () { move(-0.5); });
    page.button('▸', 'Later', bar, function () { move(0.5); });
    page.make('small', 'drag moves, Ctrl and the wheel zoom; point at an op for its details', bar);
    figure.insertBefore(bar, figure.querySelector('.chart'));
    var legend = page.make('div');
    legend.className = 'legend';
    opKinds.forEach(function (kind, k) {
      if (kind[0] !== 'idle' && boxes.kind.indexOf(k) < 0) return;
      var entry = page.make('span', '', legend), swatch = page.make('span', '', entry);
      swatch.className = 'swatch';
      swatch.style.background = kind[0] === 'idle' ? 'var(--idle)' : kind[1];
      entry.appendChild(document.createTextNode(kind[0]));
    });
    figure.insertBefore(legend, figure.querySelector('figcaption'));
    canvas.addEventListener('wheel', function (event) {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      set((event.deltaY || event.deltaX) < 0 ? 1.25 : 0.8, Math.max(0, Math.min(1, (event.offsetX - left()) / plot())));
    }, {passive: false});
    var held = null;
    canvas.addEventListener('pointerdown', function (event) { held = event.clientX; });
    window.addEventListener('pointerup', function () { held = null; });
    canvas.addEventListener('pointerleave', page.hide);
    canvas.addEventListener('pointermove', function (event) {
      if (held !== null && zoom > 1) {
        move((held - event.clientX) / plot());
        held = event.clientX;
      }
      var box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top, found = -1;
      for (var k = 0; k < count; ++k) {
        var at = span(k), a = x(boxes.start[k] * tick), b = x((boxes.start[k] + boxes.length[k]) * tick);
        if (py >= at[0] && py <= at[0] + at[1] && px >= a - 0.5 && px <= b + 0.5) found = k;
      }
      if (found < 0) return page.hide();
      var parts = /^([0-9]+)([FBIWR])([0-9.]+)$/.exec(boxes.text[found]), start = boxes.start[found] * tick;
      var to = boxes.to && boxes.to[found] >= 0 ? ' to rank ' + boxes.to[found] : '';
      var length = boxes.length[found] * tick, kind = opKinds[boxes.kind[found]][0];
      var lines = [parts ? kind + ' of micro-batch ' + parts[3] + ', stage ' + parts[1] : boxes.text[found],
        (to ? 'from ' : '') + 'rank ' + boxes.rank[found] + to,
        seconds(length) + ', from ' + seconds(start) + ' to ' + seconds(start + length)];
      if (boxes.version && boxes.version[found] !== null) lines.push('reads weight version ' + boxes.version[found]);
      if (data.path.indexOf(found) >= 0) lines.push('on the critical path');
      page.tell(lines.join('\n'), event);
    });
    function again() { if (drawn) draw(); }
    window.addEventListener('resize', again);
    document.addEventListener('themechange', again);
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
    window.addEventListener('beforeprint', draw);
    return draw;
  }
  var seen = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (!entry.isIntersecting) return;
      seen.unobserve(entry.target);
      timeline(entry.target)();
    });
  }, {rootMargin: '400px'});
  page.all('figure.timeline').forEach(function (figure) { seen.observe(figure); });
})();
