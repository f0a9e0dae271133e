// Draws the charts of a report. The colours of text and lines are those of the page.
const charts = JSON.parse(document.getElementById("charts").textContent);
if (window.innerWidth < 600) charts.config.axis.labelLimit = 145;

async function draw(holder) {
  try {
    await vegaEmbed(holder, charts.specs[holder.id], {
      actions: false, ast: true, config: charts.config, defaultStyle: false, renderer: "svg",
    });
  } catch (error) {
    holder.textContent = "This chart could not be drawn. Its data is below.";
    console.error(error);
  }
}

Promise.all([...document.querySelectorAll(".chart")].map(draw)).then((all) => {
  document.documentElement.dataset.drawn = all.length;
});

// On paper nothing can be opened, so what is closed opens for printing.
const closed = () => document.querySelectorAll("details.print:not([open])");
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = [...closed()];
  opened.forEach((part) => { part.open = true; });
});
window.addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
