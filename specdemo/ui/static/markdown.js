/* How would a text look if its Markdown were set? Lines with a kind, and for every character a style or "not drawn".
   It only reads: the pane builds the nodes, token by token, so that no mark is lost and no HTML of a model is run. */
sd.markdown = (() => {
  const BOLD = 1, ITALIC = 2, CODE = 4, STRUCK = 8, LINK = 16, HIDDEN = 32;
  const LONGEST_LINE = 2000; // characters in which signs are looked for: a hostile line must not cost a second
  const KINDS = [
    [/^(\s{0,3}#{1,6}\s+)(?=\S)/, (sign) => `h${Math.min(4, sign.trim().length)}`],
    [/^(\s*(?:([-*_])\s*)(?:\2\s*){2,})$/, () => "rule"],
    [/^(\s*[-*+]\s+)(?=\S)/, (sign) => `item depth-${depth(sign)}`],
    [/^(\s{0,3}>\s?)/, () => "quote"],
  ];
  const SIGNS = [ // [the whole, what is drawn, its style]
    [/\*\*(?=\S)([^*]*?[^\s*])\*\*/g, 2, BOLD],
    [/(?<!\w)__(?=\S)([^_]*?[^\s_])__(?!\w)/g, 2, BOLD],
    [/~~(?=\S)([^~]*?[^\s~])~~/g, 2, STRUCK],
    [/(?<![*\w])\*(?=[^\s*])([^*]*?[^\s*])\*(?!\*)/g, 1, ITALIC],
    [/(?<!\w)_(?=[^\s_])([^_]*?[^\s_])_(?!\w)/g, 1, ITALIC],
  ];

  const depth = (sign) => Math.min(3, Math.floor(sign.match(/^\s*/)[0].replace(/\t/g, "    ").length / 2));

  function read(text) {
    const styles = new Uint8Array(text.length), lines = [];
    const style = (from, to, value) => { for (let i = from; i < to; i++) styles[i] |= value; };
    let fence = null;
    for (let from = 0; from <= text.length;) {
      const end = text.indexOf("\n", from), to = end < 0 ? text.length : end;
      const line = text.slice(from, to), mark = line.match(/^\s{0,3}(```+|~~~+)/)?.[1];
      if (fence ? mark && line.trim() === mark && mark.startsWith(fence) : mark) {
        fence = fence ? null : mark;
        style(from, to, HIDDEN);
      } else if (fence) {
        lines.push({ kind: "code", from, to });
      } else {
        lines.push({ kind: prose(line, from, style), from, to });
      }
      from = to + 1;
    }
    return { lines, styles };
  }

  function prose(line, from, style) {
    if (!line.trim()) return "blank";
    let kind = /^\s*\|.*\|\s*$/.test(line) ? "table" : /^\s*\d{1,9}[.)]\s+\S/.test(line) ? `number depth-${depth(line)}` : "line";
    for (const [pattern, named] of KINDS) {
      const found = line.match(pattern);
      if (!found) continue;
      kind = named(found[1]);
      style(from, from + found[1].length, HIDDEN);
      break;
    }
    if (kind !== "table" && kind !== "rule" && line.length <= LONGEST_LINE) inline(line, from, style);
    return kind;
  }

  /* Code first, since no other sign means anything in it. */
  function inline(line, from, style) {
    const blank = (whole) => "\0".repeat(whole.length);
    let rest = line.replace(/(`+)([^`]+)\1(?!`)/g, (whole, ticks, inner, at) => {
      sign(from + at, whole.length, ticks.length, CODE, style);
      return blank(whole);
    });
    rest = rest.replace(/\[([^\]\0]+)\]\(([^)\s\0]*)\)/g, (whole, words, target, at) => {
      style(from + at, from + at + 1, HIDDEN);
      style(from + at + 1, from + at + 1 + words.length, LINK);
      style(from + at + 1 + words.length, from + at + whole.length, HIDDEN);
      return `\0${words}${"\0".repeat(whole.length - words.length - 1)}`;
    });
    for (const [pattern, width, value] of SIGNS) {
      rest = rest.replace(pattern, (whole, inner, at) => {
        sign(from + at, whole.length, width, value, style);
        return "\0".repeat(width) + whole.slice(width, -width) + "\0".repeat(width);
      });
    }
  }

  function sign(at, length, width, value, style) {
    style(at, at + width, HIDDEN);
    style(at + width, at + length - width, value);
    style(at + length - width, at + length, HIDDEN);
  }

  const classes = (style) => [[BOLD, "md-b"], [ITALIC, "md-i"], [CODE, "md-c"], [STRUCK, "md-s"], [LINK, "md-l"]].filter(([bit]) => style & bit).map(([, name]) => name).join(" ");

  return { read, classes, HIDDEN };
})();
