// Tables that sort and filter. The address keeps what was typed and which column sorts, so that a link shows the same.
(function () {
  'use strict';
  var box = document.getElementById('words'), kind = document.getElementById('kind');
  var state = new URLSearchParams(location.hash.slice(1));
  function apply() {
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    document.querySelectorAll('tr[data-system]').forEach(function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
    });
    document.querySelectorAll('[data-kind]').forEach(function (part) {
      part.hidden = kind.value !== '' && part.dataset.kind !== kind.value;
    });
  }
  function keep() {
    if (box.value) state.set('words', box.value); else state.delete('words');
    if (kind.value) state.set('kind', kind.value); else state.delete('kind');
    history.replaceState(null, '', '#' + state.toString());
    apply();
  }
  function sort(table, column, rising) {
    var body = table.tBodies[0], rows = Array.from(body.rows);
    function key(row) {
      var value = row.cells[column].dataset.value;
      return value === undefined ? row.cells[column].textContent : Number(value);
    }
    rows.sort(function (a, b) {
      var x = key(a), y = key(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (rising ? 1 : -1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
    table.querySelectorAll('th').forEach(function (head, k) {
      head.setAttribute('aria-sort', k !== column ? 'none' : rising ? 'ascending' : 'descending');
    });
  }
  document.querySelectorAll('table[id]').forEach(function (table) {
    table.querySelectorAll('th').forEach(function (head, column) {
      function press() {
        var rising = head.getAttribute('aria-sort') === 'descending';
        sort(table, column, rising);
        state.set(table.id, column + (rising ? 'r' : ''));
        keep();
      }
      head.tabIndex = 0;
      head.addEventListener('click', press);
      head.addEventListener('keydown', function (event) { if (event.key === 'Enter') press(); });
    });
    var stored = /^([0-9]+)(r?)$/.exec(state.get(table.id) || '');
    if (stored && Number(stored[1]) < table.tHead.rows[0].cells.length)
      sort(table, Number(stored[1]), stored[2] === 'r');
  });
  box.value = state.get('words') || '';
  kind.value = state.get('kind') || '';
  box.addEventListener('input', keep);
  kind.addEventListener('change', keep);
  apply();
})();
