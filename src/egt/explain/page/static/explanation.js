// Why: the importance of nodes and edges by two methods, and whether to believe it.
import { byId, element, readable } from "./elements.js";
import { ask } from "./requests.js";
import { GraphDrawing } from "./graph.js";
import { plainTable } from "./table.js";

const NAMES = { gradients: "Integrated gradients", rollout: "Attention rollout" };

export class ExplanationView {
  constructor(about, fail) {
    this.fail = fail;
    byId("why-target").replaceChildren(...about.targets.map((name) => element("option", { value: name }, name)));
    byId("why-target-label").hidden = about.targets.length < 2;
    byId("why-of-label").hidden = about.level === "graph";
    byId("why-level").textContent = about.level;
    this.level = about.level;
    this.molecules = about.molecules;
    this.several = about.targets.length > 1;
    byId("explain").addEventListener("click", () => this.#explain());
  }

  /** A node was chosen: of a model that answers for nodes it is the one to explain. */
  choose(node) {
    if (this.level === "node") byId("why-of").value = node;
  }

  /** found: what the server says about one graph. */
  show(found) {
    this.found = found;
    byId("explanation").hidden = true;
    byId("why-of").value = 0;
  }

  async #explain() {
    const button = byId("explain");
    const { look } = this.found;
    button.disabled = true;
    button.textContent = "Explaining…";
    try {
      const target = this.several ? byId("why-target").value : null;
      const said = await ask("explain", { look, of: Number(byId("why-of").value), target });
      if (look === this.found.look) this.#draw(said);
    } catch (error) {
      this.fail(error);
    } finally {
      button.disabled = false;
      button.textContent = "Explain this prediction";
    }
  }

  #draw(said) {
    byId("explanation").hidden = false;
    byId("verdict").textContent = said.verdict;
    byId("verdict").className = said.believed.length ? "good" : "";
    this.graph = new GraphDrawing(byId("why-drawing"), this.found.drawing, () => {});
    const radios = said.methods.map((method, number) => {
      const radio = element("input", { type: "radio", name: "method", value: method.name, ...(number ? {} : { checked: "" }) });
      radio.addEventListener("change", () => this.#method(said, method));
      return element("label", {}, radio, ` ${NAMES[method.name] ?? method.name}`);
    });
    byId("methods").replaceChildren(byId("methods").firstElementChild, ...radios);
    this.#method(said, said.methods[0]);
  }

  #method(said, method) {
    const { names } = this.found.drawing;
    const most = (values) => Math.max(...values.map(Math.abs), 1e-30);
    const [node, edge] = [most(method.nodes), most(method.edges.map(([, , value]) => value))];
    this.graph.color({
      nodes: method.nodes.map((value) => value / node),
      edges: method.edges.map(([i, j, value]) => [i, j, (0.8 * value) / edge]),
      texts: method.nodes.map((value) => readable(value, 3)),
    });
    byId("why-title-of").textContent = `${said.target} ${readable(said.value)}${said.probability === null ? "" : ` (probability ${readable(said.probability, 3)})`}; without any input ${readable(said.without)}. ${method.title} ${this.molecules ? "Atoms and bonds" : "Nodes and edges"} are each scaled to their largest value.`;
    byId("scores").replaceChildren(...method.scores.map((score) => this.#score(score)));
    const parts = method.nodes.map((value, k) => [names[k], value]).concat(method.edges.map(([i, j, value]) => [`${names[i]} – ${names[j]}`, value]));
    parts.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    byId("top").replaceChildren(plainTable(["part", "importance"], parts.slice(0, 6)));
  }

  #score({ parts, size, of, top, random, score, interval, doubts }) {
    const numbers = element("p", { class: "small" },
      `Masking the top ${size} of ${of} ${parts} moves the prediction by ${readable(top, 3)}, ${size} random others by ${readable(random, 3)} on average: `,
      element("strong", {}, `score ${readable(score, 2)}`),
      ` (${readable(interval[0], 2)} to ${readable(interval[1], 2)} for 90% of the draws). `,
      element("strong", {}, doubts.length ? "Do not believe it." : "Faithful."));
    const why = doubts.map((doubt) => element("li", {}, doubt));
    return element("div", {}, numbers, ...(why.length ? [element("ul", { class: "small soft" }, ...why)] : []));
  }
}
