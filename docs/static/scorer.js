/* Order of the site's search results: pages with words of the query in their title first, notebooks after other pages. */
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().split(/\W+/).filter((word) => word.length > 2);
    const named = words.filter((word) => title.toLowerCase().includes(word)).length;
    return score + 10 * named - (page.startsWith("notebooks/") ? 3 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
