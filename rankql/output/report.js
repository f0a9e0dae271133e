// Draws the charts of a report. The colours of text and lines are those of the page.
const charts = JSON.parse(document.getElementById("charts").textContent);
const narrow = window.innerWidth < 600;
if (narrow) {
  charts.config.axis.labelLimit = 130;
  for (const spec of Object.values(charts.specs))
    for (const { mark } of spec.layer) if (mark.limit) mark.limit = 90;
}

async function draw(holder) {
  try {
    await vegaEmbed(holder, charts.specs[holder.id], {
      actions: false, ast: true, config: charts.config, defaultStyle: false, renderer: "svg",
    });
  } catch (error) {
    holder.textContent = "This chart could not be drawn; its data stands below.";
    console.error(error);
  }
}

Promise.all([...document.querySelectorAll(".chart")].map(draw)).then((all) => {
  document.documentElement.dataset.drawn = all.length;
});

// On paper nothing can be opened.
const closed = () => document.querySelectorAll("details.print:not([open])");
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = [...closed()];
  opened.forEach((part) => { part.open = true; });
});
window.addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
