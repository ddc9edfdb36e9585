// Lets the search work where the site is opened from a disk: browsers refuse workers there, so their script runs in a
// hidden frame. MkDocs Material looks for a script of this name and would otherwise fetch one from the network.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    this.frame.srcdoc = "";
    this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true })).then(() => {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...scripts) =>
        scripts.reduce((before, script) => before.then(() => load(inside, script)), Promise.resolve());
      return load(inside, url);
    });
    document.body.append(this.frame);
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: plain(data) })));
  }

  terminate() {
    this.frame.remove();
  }
}

function load(inside, url) {
  return new Promise((resolve, reject) => {
    const script = inside.document.createElement("script");
    script.onload = resolve;
    script.onerror = () => reject(new Error(`cannot load ${url}`));
    script.src = url;
    inside.document.body.append(script);
  });
}

// Options are looked up as they are typed, with their dashes, which the search takes for "without this word" (and two of
// them for a mistake). Of its messages, those of type 2 are queries.
function plain(message) {
  if (message?.type !== 2 || typeof message.data !== "string") return message;
  return { ...message, data: message.data.replace(/(^|\s)[-+]+(?=\S)/g, "$1") };
}

if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = IFrameWorker;
} else {
  const send = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...more) {
    return send.call(this, plain(message), ...more);
  };
}
