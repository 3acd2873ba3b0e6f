// A printer of YAML for what came as JSON. It prints and never reads, so nothing
// that is in a manifest can do more than be shown.

const words = /^(?:true|false|yes|no|on|off|null|~|y|n|\.nan|[-+]?\.inf|<<|=)$/i;
// Numbers, dates and times, and what some readers take for them.
const numeric = /^[-+]?[0-9.][0-9_.,:eExXoOa-fA-FTZ+-]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it looks for.
const unprintable = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff]/;

/** toYAML prints a value. Fields of a Kubernetes object come in the order in which people read them. */
export function toYAML(value: unknown): string {
  const lines: string[] = [];
  if (isRecord(value) && Object.keys(value).length > 0) printFields(ordered(value), "", lines);
  else if (Array.isArray(value) && value.length > 0) printItems(value, "", lines);
  else lines.push(scalar(value));
  return `${lines.join("\n")}\n`;
}

const first = ["apiVersion", "kind", "metadata", "spec"];
const last = ["status"];

function ordered(value: Record<string, unknown>): [string, unknown][] {
  const place = (key: string): number => {
    const early = first.indexOf(key);
    if (early >= 0) return early - first.length;
    return last.includes(key) ? 1 : 0;
  };
  // The sort is stable: fields of the same place stay as they came.
  return Object.entries(value).sort(([a], [b]) => place(a) - place(b));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function printFields(fields: [string, unknown][], indent: string, lines: string[]): void {
  for (const [key, value] of fields) {
    const head = `${indent}${quoted(key)}:`;
    if (isRecord(value) && Object.keys(value).length > 0) {
      lines.push(head);
      printFields(Object.entries(value), `${indent}  `, lines);
    } else if (Array.isArray(value) && value.length > 0) {
      lines.push(head);
      printItems(value, indent, lines);
    } else {
      printScalar(`${head} `, value, `${indent}  `, lines);
    }
  }
}

function printItems(items: unknown[], indent: string, lines: string[]): void {
  for (const item of items) {
    if ((isRecord(item) && Object.keys(item).length > 0) || (Array.isArray(item) && item.length > 0)) {
      // The first line of the item stands beside its dash.
      const at = lines.length;
      if (Array.isArray(item)) printItems(item, `${indent}  `, lines);
      else printFields(Object.entries(item), `${indent}  `, lines);
      lines[at] = `${indent}- ${(lines[at] ?? "").slice(indent.length + 2)}`;
    } else {
      printScalar(`${indent}- `, item, `${indent}  `, lines);
    }
  }
}

function printScalar(head: string, value: unknown, indent: string, lines: string[]): void {
  if (typeof value !== "string" || !isBlock(value)) {
    lines.push(head + scalar(value));
    return;
  }
  const body = value.replace(/\n+$/, "");
  const ends = value.length - body.length;
  lines.push(`${head}|${ends === 0 ? "-" : ends === 1 ? "" : "+"}`);
  for (const line of body.split("\n")) lines.push(line === "" ? "" : indent + line);
  for (let i = 1; i < ends; i++) lines.push("");
}

// isBlock is true for text of several lines that a literal block can hold as it is.
function isBlock(text: string): boolean {
  const trimmed = text.replace(/\n+$/, "");
  return text.includes("\n") && trimmed !== "" && !/^[\s]/.test(text) && !unprintable.test(text);
}

function scalar(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return "[]";
  if (isRecord(value)) return "{}";
  return value === undefined ? "null" : String(value);
}

// quoted is a text as it is where every reader takes it for text, and else in
// quotes: JSON's are YAML's too.
function quoted(text: string): string {
  const plain =
    text !== "" &&
    !/^[\s\-?:,[\]{}#&*!|>'"%@`]/.test(text) &&
    !/:(?:\s|$)|\s#|\s$|\n/.test(text) &&
    !words.test(text) &&
    !numeric.test(text) &&
    !unprintable.test(text);
  if (plain) return text;
  // What JSON leaves as it is and YAML readers may refuse.
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
