#include "lab/report/style.h"

namespace graft::lab {
namespace {

// --c0 to --c7 are Okabe and Ito's colours, which colour-blind readers tell apart, darkened or
// lightened for contrast with the ground.
constexpr const char* kStyle = R"css(
:root {
  color-scheme: light dark;
  --ground: #fdfdfc; --panel: #f4f4f2; --ink: #1d2024; --soft: #5f656e; --line: #e2e3e1;
  --grid: #ebebe9; --link: #0b62a3;
  --good: #00704f; --bad: #b3261e; --warn: #8a5a00;
  --c0: #7a818c; --c1: #0072b2; --c2: #00936b; --c3: #cf8200;
  --c4: #b0578e; --c5: #c94f00; --c6: #3596cc; --c7: #84703f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #15171a; --panel: #1e2125; --ink: #e8e9ea; --soft: #9ba1a9; --line: #32363c;
    --grid: #272b30; --link: #6db8ef;
    --good: #4fc79b; --bad: #ff8a80; --warn: #e5b35c;
    --c0: #9aa2ad; --c1: #4ea6e6; --c2: #3cc297; --c3: #efae45;
    --c4: #dc93c0; --c5: #f58549; --c6: #85cbf3; --c7: #c4ad75;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0 auto; padding: 56px 32px 96px; max-width: 1240px;
  background: var(--ground); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums;
}
h1, h2, h3, p, figure, ul { margin: 0; padding: 0; }
h1 { font-size: 34px; line-height: 1.2; font-weight: 650; letter-spacing: -0.015em; overflow-wrap: anywhere; }
h2 { font-size: 22px; line-height: 1.3; font-weight: 620; letter-spacing: -0.01em; }
h3 { font-size: 17px; line-height: 1.4; font-weight: 620; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 3px; }
.eyebrow { color: var(--soft); font-size: 13px; font-weight: 550; margin-bottom: 6px; }
.lead { font-size: 17px; margin-top: 12px; }
.machine { color: var(--soft); margin-top: 2px; overflow-wrap: anywhere; }
.says { color: var(--soft); max-width: 76ch; margin-top: 4px; text-wrap: pretty; }
section { display: flow-root; margin-top: 64px; }
header.run { margin-top: 96px; padding-top: 40px; border-top: 1px solid var(--line); }
header.run + section { margin-top: 48px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; margin-top: 32px; padding: 12px 0;
  border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); font-size: 14px; }
.scores { display: grid; grid-template-columns: repeat(auto-fit, minmax(156px, 1fr)); gap: 24px 40px; margin-top: 32px; }
.score .who { font-weight: 600; }
.score .big { font-size: 44px; line-height: 1.15; font-weight: 600; letter-spacing: -0.025em; }
.score .what { color: var(--soft); font-size: 13px; }
.tally { display: flex; flex-wrap: wrap; gap: 2px 12px; }
.score .tally { font-size: 13px; }
section > .tally { margin-top: 12px; }

.scroll { overflow-x: auto; margin-top: 20px; }
table { border-collapse: collapse; font-size: 13.5px; line-height: 1.4; min-width: 100%; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: 5px 10px; text-align: left; white-space: nowrap; font-weight: 400; vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; }
thead th { color: var(--soft); font-size: 12.5px; border-bottom: 1px solid var(--line); vertical-align: bottom; }
tbody th { position: sticky; left: 0; background: var(--ground); font-weight: 500; }
tbody tr.first > * { border-top: 1px solid var(--line); padding-top: 9px; }
tbody tr:has(+ tr.first) > * { padding-bottom: 9px; }
tbody tr:first-child.first > * { border-top: 0; }
table.sorted tbody tr > * { border-top: 0; padding-top: 5px; padding-bottom: 5px; }
tbody tr:hover > * { background: var(--panel); }
.n { text-align: right; }
.strong { font-weight: 600; }
.soft { color: var(--soft); }
thead button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
thead button:hover { color: var(--ink); }
thead th[aria-sort] { color: var(--ink); font-weight: 600; }
thead th[aria-sort] button::after { content: " ↑"; }
thead th[aria-sort="descending"] button::after { content: " ↓"; }
.verdict { font-weight: 550; }
.is-faster { color: var(--good); }
.is-slower, .is-failed, .is-regression { color: var(--bad); }
.is-ambiguous { color: var(--warn); }
.is-same, .is-reference, .is-skipped, .is-missing, .is-new { color: var(--soft); font-weight: 400; }
.notes { list-style: none; margin-top: 24px; font-size: 13.5px; max-width: 92ch; }
.notes li { margin-top: 6px; color: var(--soft); overflow-wrap: anywhere; }
.notes b { color: var(--ink); font-weight: 550; }
table.facts td { white-space: normal; overflow-wrap: anywhere; min-width: 200px; }
table.facts th[scope="row"] { color: var(--soft); }
tr.differs > * { color: var(--warn); }
td.samples { white-space: normal; min-width: 480px; color: var(--soft); font-size: 12px; }
td.meter { width: 160px; min-width: 90px; vertical-align: middle; }
td.meter span { display: block; height: 9px; min-width: 1px; border-radius: 1.5px; background: var(--c); }
details { margin-top: 16px; }
summary { cursor: pointer; color: var(--link); }
button.save { font: inherit; font-size: 14px; margin-top: 16px; padding: 5px 14px; color: var(--ink);
  background: var(--panel); border: 1px solid var(--line); border-radius: 6px; cursor: pointer; }
button.save:hover { border-color: var(--soft); }

.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; list-style: none; margin-top: 16px; font-size: 13px; }
.legend li { display: flex; align-items: center; gap: 6px; }
.key { width: 14px; height: 14px; }
.symbols { position: absolute; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 332px), 1fr));
  gap: 36px 40px; margin-top: 28px; }
.tiles.large { grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); }
figcaption { font-weight: 600; font-size: 14px; overflow-wrap: anywhere; }
.chart { display: block; overflow: visible; width: calc(100% - var(--left) - var(--right));
  margin: 14px var(--right) var(--below) var(--left); }
section > .chart { margin-top: 36px; }
.chart + .scroll { margin-top: 72px; }
.chart text { font-size: 12px; fill: var(--ink); }
.chart .tick { fill: var(--soft); font-size: 11.5px; }
.chart .title { fill: var(--soft); }
.chart .heading { font-weight: 600; font-size: 13px; transform: translateX(calc(-1 * var(--left))); }
.chart .label, .chart .extra { fill: var(--soft); }
.chart .note { paint-order: stroke; stroke: var(--ground); stroke-width: 4px; stroke-linejoin: round; }
.chart line { stroke-width: 1px; }
.grid { stroke: var(--grid); }
.one { stroke: var(--soft); stroke-dasharray: 3 3; }
.v0 { --c: var(--c0); } .v1 { --c: var(--c1); } .v2 { --c: var(--c2); } .v3 { --c: var(--c3); }
.v4 { --c: var(--c4); } .v5 { --c: var(--c5); } .v6 { --c: var(--c6); } .v7 { --c: var(--c7); }
.fill { fill: var(--c); }
.track { fill: var(--panel); }
.chart line.interval { stroke: var(--c); stroke-width: 2px; stroke-linecap: round; }
.chart line.median { stroke: var(--ink); stroke-width: 2px; }
.box { fill: var(--c); opacity: 0.16; }
.dots { fill: var(--c); fill-opacity: 0.55; }
.outliers { fill: var(--ground); stroke: var(--c); stroke-width: 1.2px; }
.curve { fill: none; stroke: var(--c); stroke-width: 2px; stroke-linejoin: round; }
.reserved { stroke-width: 1.2px; stroke-dasharray: 4 4; }
.roof { fill: none; stroke: var(--soft); stroke-width: 1.5px; stroke-linejoin: round; }

@media (max-width: 640px) {
  body { padding: 28px 16px 64px; }
  h1 { font-size: 26px; }
  h2 { font-size: 20px; }
  section { margin-top: 44px; }
  .scores { gap: 24px 20px; }
  .score .big { font-size: 34px; }
  tbody th { min-width: 124px; max-width: 40vw; overflow-wrap: anywhere; white-space: normal; }
  .chart { width: calc(100% - var(--left) - var(--right-narrow)); margin-right: var(--right-narrow); }
  .chart .extra { display: none; }
}
@media print { nav, button.save, details { display: none; } section { break-inside: avoid-page; } }
)css";

constexpr const char* kScript = R"js(
'use strict';
for (const table of document.querySelectorAll('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
  };
  heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {
    const down = head.getAttribute('aria-sort') === 'ascending';
    heads.forEach(other => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const compare = (a, b) => {
      const x = value(a, column), y = value(b, column);
      if (x === '' || y === '') return (x === '') - (y === '');  // the unknown last, either way
      const order = typeof x === 'number' && typeof y === 'number' ? x - y
          : String(x).localeCompare(String(y), undefined, {numeric: true});
      return down ? -order : order;
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare));
    table.classList.add('sorted');
  }));
}
for (const button of document.querySelectorAll('button.save')) {
  button.addEventListener('click', () => {
    const text = document.getElementById(button.dataset.run).textContent;
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
)js";

}  // namespace

std::string page_start(const std::string& title) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
         "<link rel=\"icon\" href=\"data:,\">\n<title>" +
         title + " · Graft laboratory</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n";
}

std::string page_end() {
  return std::string("<script>") + kScript + "</script>\n</body>\n</html>\n";
}

}  // namespace graft::lab
