// Print the results of searches on a built site, best first: `node search_site.js SITE QUERY ...`. It runs the site's own scripts.
const fs = require("fs");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const element = { childNodes: [], querySelectorAll: () => [] };
const page = {
  document: { getElementById: () => element, querySelectorAll: () => [], addEventListener: () => {}, readyState: "loading" },
  location: { search: "" },
  localStorage: { setItem: () => {} },
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  _ready: () => {},
  URLSearchParams,
  _: (text) => text,
};
page.window = page;
vm.createContext(page);
for (const file of ["base-stemmer.js", "english-stemmer.js", "searchtools.js", "language_data.js"]) {
  vm.runInContext(fs.readFileSync(`${site}/_static/${file}`, "utf8"), page);
}
vm.runInContext(fs.readFileSync(`${site}/searchindex.js`, "utf8"), page);
const found = queries.map((query) => {
  page.location.search = `?q=${encodeURIComponent(query)}`;
  page.query = query;
  // A result is [page, title, anchor, description, score, file]; the last one is shown first.
  return vm.runInContext("Search._performSearch(...Search._parseQuery(query))", page)
    .reverse().slice(0, 8).map(([name, title, anchor, , score]) => [name, title, anchor, score]);
});
console.log(JSON.stringify(found));
