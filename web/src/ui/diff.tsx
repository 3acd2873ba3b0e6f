import { useMemo, useState } from "react";
import { Button } from "./button";
import "./code.css";
import { shownLines } from "./manifest";

export type DiffLine = { kind: "add" | "remove" | "same" | "place"; text: string };

/** diffLines reads a unified diff. The names of its files are left out. */
export function diffLines(text: string): DiffLine[] {
  const lines = text.replace(/\n$/, "").split("\n");
  const read: DiffLine[] = [];
  let inside = false;
  for (const line of lines) {
    if (line.startsWith("@@")) {
      inside = true;
      read.push({ kind: "place", text: line });
    } else if (!inside && (line.startsWith("--- ") || line.startsWith("+++ "))) {
      // The head of the diff.
    } else if (line.startsWith("+")) read.push({ kind: "add", text: line });
    else if (line.startsWith("-")) read.push({ kind: "remove", text: line });
    else read.push({ kind: "same", text: line });
  }
  return read;
}

/** diffSize counts the lines that come and those that go. */
export function diffSize(lines: DiffLine[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.kind === "add") added++;
    else if (line.kind === "remove") removed++;
  }
  return { added, removed };
}

/** DiffView shows a unified diff. The signs stay: not everyone can distinguish the colours. */
export function DiffView({ text, label }: { text: string; label: string }) {
  const lines = useMemo(() => diffLines(text), [text]);
  const size = useMemo(() => diffSize(lines), [lines]);
  const [all, setAll] = useState(false);
  const shown = all ? lines : lines.slice(0, shownLines);
  return (
    <section className="codeblock" aria-label={label}>
      <div className="codebar">
        <span className="spread muted">
          {size.added} added, {size.removed} removed
        </span>
        {lines.length > shown.length && (
          <Button small onPress={() => setAll(true)}>
            {`Show all ${lines.length} lines`}
          </Button>
        )}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard. */}
      <pre tabIndex={0}>
        <code>
          {shown.map((line, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a line has nothing but its place.
            <span key={at} className={`codeline diff-${line.kind}`}>{`${line.text}\n`}</span>
          ))}
        </code>
      </pre>
    </section>
  );
}
