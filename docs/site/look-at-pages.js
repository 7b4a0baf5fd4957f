// SPDX-License-Identifier: MIT
// Opens each of PAGES in a frame, and writes what is wrong with it into the document. tools/checks/site-pages
// gives WIDTH, CONTRAST and PAGES.
const frame = document.getElementById("frame");

// Red, green, blue and opacity.
function channels(color) {
  const found = color.match(/rgba?\(([^)]*)\)/);
  const numbers = found ? found[1].split(/[,\s\/]+/).map(Number) : [0, 0, 0, 0];
  return numbers.length == 3 ? [...numbers, 1] : numbers;
}

// As the guidelines for accessible pages define it.
function luminance([red, green, blue]) {
  const linear = it => it / 255 <= 0.03928 ? it / 255 / 12.92 : ((it / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

function ground(element, style) {
  for (; element; element = element.parentElement) {
    const color = channels(style(element).backgroundColor);
    if (color[3] > 0.9) return color;
  }
  return [255, 255, 255, 1];
}

function tooWide(article, style) {
  const scrolls = it => it != article &&
    (/auto|scroll/.test(style(it).overflowX) || scrolls(it.parentElement));
  const right = it => Math.round(it.getBoundingClientRect().right);
  return [...article.querySelectorAll("*")].filter(it => right(it) > WIDTH && !scrolls(it)).slice(0, 3)
    .map(it => `${it.tagName} reaches ${right(it)} px: "${it.textContent.trim().slice(0, 40)}"`);
}

function faint(article, style) {
  const found = new Map(); // one for each kind of element
  const texts = article.ownerDocument.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, text = texts.currentNode.data.trim();
    if (!text || !element.getClientRects().length || element.closest(".headerlink, svg")) continue;
    const [ink, paper] = [channels(style(element).color), ground(element, style)].map(luminance);
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (contrast < CONTRAST)
      found.set(`${element.tagName}.${element.className}`, `${contrast.toFixed(1)}: "${text.slice(0, 40)}"`);
  }
  return [...found].map(([element, contrast]) => `the contrast of ${element} is ${contrast}`);
}

function look() {
  const opened = frame.contentDocument, style = it => frame.contentWindow.getComputedStyle(it);
  const article = opened.querySelector("article") || opened.body;
  const missing = [...opened.images].filter(it => !it.naturalWidth);
  return [
    ...(opened.documentElement.scrollWidth > WIDTH ? ["the page is too wide"] : []),
    ...missing.map(it => `there is no picture ${it.getAttribute("src")}`),
    ...tooWide(article, style),
    ...faint(article, style),
  ];
}

(async () => {
  const said = [];
  for (const page of PAGES) {
    await new Promise(loaded => { frame.onload = loaded; frame.src = page; });
    said.push(...look().map(what => `${page}: ${what}`));
  }
  document.getElementById("said").textContent = "looked\n" + said.join("\n");
})();
