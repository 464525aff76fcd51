/* Scroll the sidebar to the current page: the list of elementwise functions is longer than a window. */
document.addEventListener("DOMContentLoaded", () => {
  const sidebar = document.querySelector(".sidebar-scroll");
  const current = document.querySelector(".sidebar-tree .current-page");
  if (sidebar && current) {
    const above = current.getBoundingClientRect().top - sidebar.getBoundingClientRect().top;
    if (above > sidebar.clientHeight) sidebar.scrollBy({ top: above - sidebar.clientHeight / 2, behavior: "instant" });
  }
});
