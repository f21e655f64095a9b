/* Gradio's own toasts know no language but English: what they can say on this page is said in the page's. */
sd.ready(() => {
  const KEYS = {
    Error: "toast.error",
    "Connection to the server was lost. Attempting reconnection...": "toast.lost",
    "Connection errored out.": "toast.unreachable",
    "This application is currently busy. Please try again.": "toast.busy",
  };
  const said = new WeakMap(); // text node -> key of what it says
  const toasts = document.getElementsByClassName("toast-body");

  function translate() {
    for (const toast of toasts) {
      toast.querySelector("[data-testid=toast-close]")?.setAttribute("aria-label", sd.say("close"));
      for (const walker = document.createTreeWalker(toast, NodeFilter.SHOW_TEXT); walker.nextNode();) {
        const node = walker.currentNode, key = KEYS[node.nodeValue.trim()] ?? said.get(node);
        if (!key) continue;
        said.set(node, key);
        node.nodeValue = sd.say(key);
      }
    }
  }

  new MutationObserver(translate).observe(document.body, { childList: true, subtree: true });
  sd.on("language", translate);
});
