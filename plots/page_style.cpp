// The style of report.html: light and dark, on paper, wide and narrow. Charts are drawn for a white page; here their
// texts, lines and grounds get the colours of the theme. Texts have three sizes: 13, 15 and 20 pixels; charts, whose
// texts inline_svg gives one size, are 13/12 of their width --w.
#include "plots/page_parts.h"

namespace sluice {

const char* const kPageStyle = R"css(
:root{--ink:#1d2530;--soft:#5a6472;--line:#dfe3e8;--back:#f6f7f9;--paper:#fff;--head:#eef1f5;--accent:#2f5d8a;
  --bad:#b3261e;--good:#1b6e3c;--grid:#e6e6e6;--axis:#888;--idle:#ececec;color-scheme:light}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){--ink:#e6e9ee;--soft:#a3adba;--line:#353c46;
  --back:#14181d;--paper:#1d2229;--head:#272e37;--accent:#8ab8e6;--bad:#ff8a80;--good:#7fd19b;--grid:#343b45;
  --axis:#7d8794;--idle:#2b323b;color-scheme:dark}}
:root[data-theme=dark]{--ink:#e6e9ee;--soft:#a3adba;--line:#353c46;--back:#14181d;--paper:#1d2229;--head:#272e37;
  --accent:#8ab8e6;--bad:#ff8a80;--good:#7fd19b;--grid:#343b45;--axis:#7d8794;--idle:#2b323b;color-scheme:dark}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
main{max-width:1680px;margin:0 auto;padding:24px 24px 80px}
h1{font-size:20px;margin:0}
h2{font-size:20px;margin:36px 0 8px}
h3{font-size:15px;margin:22px 0 8px}
h4{font-size:15px;margin:0}
p{max-width:86ch;margin:8px 0}
h1,h2,h3,h4,p,li,summary{overflow-wrap:anywhere}
a{color:var(--accent)}
code{font-size:inherit}
small,.soft{color:var(--soft)}
small{font-weight:400}
small,.soft,.soft small{font-size:13px}
.bad{color:var(--bad)}
nav.page{display:flex;flex-wrap:wrap;gap:2px 18px;margin:10px 0}
button{font:inherit;font-size:13px;color:var(--ink);background:var(--paper);border:1px solid var(--line);
  border-radius:6px;padding:3px 10px;cursor:pointer}
button:hover{border-color:var(--accent)}
#theme{float:right}
.scroll{overflow-x:auto;background:var(--paper);border:1px solid var(--line);border-radius:8px;margin:8px 0}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:5px 9px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th{background:var(--head);font-weight:600;vertical-align:bottom}
tr:first-child th:first-child,td:first-child,td.text,th.text{text-align:left}
th[colspan]{text-align:center}
td.text{white-space:normal;min-width:16ch;overflow-wrap:anywhere}
td.bad{min-width:26ch}
tbody tr:last-child td{border-bottom:0}
tr.reference td{background:var(--head)}
th button{all:unset;cursor:pointer}
th button:focus-visible{outline:2px solid var(--accent)}
th[aria-sort] button::after{content:" \2191"}
th[aria-sort=descending] button::after{content:" \2193"}
input[type=search]{font:inherit;font-size:13px;width:min(100%,340px);padding:4px 9px;border:1px solid var(--line);
  border-radius:6px;background:var(--paper);color:var(--ink)}
.swatch{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:7px}
table.answers td{text-align:left;white-space:normal;min-width:14ch}
table.answers td:first-child{min-width:24ch}
table.answers small{overflow-wrap:anywhere}
table.answers th{text-align:left}
.sure{color:var(--good)}
details{margin:10px 0}
details.why{margin:0}
summary{cursor:pointer;font-weight:600}
details.section{border-top:2px solid var(--line);margin:26px 0 0;padding-top:10px}
details.section>summary h2{display:inline;margin:0}
.tabs{display:flex;flex-wrap:wrap;gap:6px;margin:12px 0 4px}
.tabs button[aria-selected=true]{background:var(--accent);border-color:var(--accent);color:var(--paper)}
.tabbed>.panel:not(.shown){display:none}
.tabbed>.panel>h3.tab{display:none}
.grid{display:flex;flex-wrap:wrap;gap:14px;margin:10px 0;align-items:stretch}
figure{margin:0;padding:12px;background:var(--paper);border:1px solid var(--line);border-radius:8px;min-width:0;
  max-width:100%;flex:1 1 calc(13/12*var(--w) + 26px)}
figure.timeline{flex-basis:100%}
.chart{overflow-x:auto;--least:.8}
.chart svg{display:block;width:clamp(var(--least)*var(--w),100%,13/12*var(--w));height:auto;margin:0 auto;
  font-family:Helvetica,Arial,sans-serif}
.chart svg [aria-label]:hover{stroke:var(--ink);stroke-width:1.2px}
.chart svg text{pointer-events:none}
.chart svg>rect:first-child{fill:none}
.chart text[fill="#000"],.chart text[fill="#333"],.chart text[fill="black"],.chart text[fill="#444"],
.chart path[fill="#000"],.chart path[fill="#111"]{fill:var(--ink)}
.chart .role-mark path[fill="white"]{fill:var(--paper)}
.chart text[fill="#555"]{fill:var(--soft)}
.chart text[stroke="white"]{stroke:var(--paper);fill:var(--paper)}
.chart text[fill="#b3261e"]{fill:var(--bad)}
.chart [stroke="#e6e6e6"]{stroke:var(--grid)}
.chart [stroke="#888"],.chart [stroke="#ddd"]{stroke:var(--axis)}
.chart [stroke="#111"],.chart [stroke="#444"]{stroke:var(--ink)}
.chart [stroke="#b3261e"]{stroke:var(--bad)}
.chart path[stroke="white"],.chart line[stroke="white"]{stroke:var(--paper)}
.chart [fill="#ececec"]{fill:var(--idle)}
figcaption{font-size:13px;color:var(--soft);margin-top:6px;display:flex;flex-wrap:wrap;gap:2px 12px;
  align-items:baseline}
.zoom{display:flex;gap:4px;flex-wrap:wrap;margin-bottom:6px;align-items:baseline}
.timeline canvas{display:block;width:100%}
.zoomed canvas{cursor:grab;touch-action:pan-y}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:13px;color:var(--soft)}
#tip{position:fixed;z-index:9;pointer-events:none;background:var(--ink);color:var(--back);font-size:13px;
  padding:5px 9px;border-radius:5px;max-width:min(360px,90vw);white-space:pre-line;overflow-wrap:anywhere}
#tip[hidden]{display:none}
@media (max-width:700px){
.zoom small{display:none}
.scroll table:not(.answers) td:first-child{position:sticky;left:0;background:var(--paper);min-width:36vw;max-width:44vw;
  white-space:normal;overflow-wrap:anywhere}
th,td{padding:5px 6px}
.chart{--least:.9}
main{padding:14px 12px 60px}
table.answers thead{display:none}
table.answers tr{display:block;border-bottom:2px solid var(--line);padding:6px 0}
table.answers td{display:block;border:0;padding:3px 9px}
table.answers td:not(:first-child)::before{content:attr(data-name) ": ";color:var(--soft)}
}
@media print{
:root,:root[data-theme],:root:not([data-theme=light]){--ink:#000;--soft:#444;--line:#ccc;--back:#fff;--paper:#fff;
  --head:#eee;--accent:#1f4a73;--bad:#8c1d18;--good:#14522d;--grid:#e6e6e6;--axis:#888;--idle:#ececec;
  color-scheme:light}
main{max-width:none;padding:0}
body{font-size:11px;print-color-adjust:exact;-webkit-print-color-adjust:exact}
#theme,.tabs,.zoom,figcaption,input,nav.page{display:none!important}
details::details-content{display:block;content-visibility:visible}
.tabbed>.panel{display:block!important}
.tabbed>.panel>h3.tab{display:block}
.grid{display:block}
figure{break-inside:avoid;margin:8px 0}
figure .chart svg{max-height:240mm;width:min(100%,var(--w))}
.scroll{overflow:visible;border:0}
table{font-size:8px}
th,td{padding:2px 4px;white-space:normal}
td.text,td.bad,table.answers td,table.answers td:first-child{min-width:0}
tr{break-inside:avoid}
h2,h3,summary{break-after:avoid}
}
)css";

}  // namespace sluice
