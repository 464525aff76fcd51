/* Order of the site's search results: pages with words of the query in their title first; the user's guide before the
   reference, and both before the notebooks. */
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().split(/\W+/).filter((word) => word.length > 2);
    const named = words.filter((word) => title.toLowerCase().includes(word)).length;
    const later = page.startsWith("notebooks/") ? 8 : page.startsWith("docs/reference/") ? 1 : 0;
    return score + 10 * named - later;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 0, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
