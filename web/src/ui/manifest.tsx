import { useMemo, useState } from "react";
import { Button } from "./button";
import "./code.css";
import { toYAML } from "./yaml";

/** shownLines bounds the lines of a long text until it is expanded. */
export const shownLines = 1_000;

/** manifestText is a manifest of the API as YAML, or as it came when it is no JSON. */
export function manifestText(manifest: Uint8Array): string {
  const text = new TextDecoder().decode(manifest);
  try {
    const value: unknown = JSON.parse(text);
    return toYAML(value);
  } catch {
    return text;
  }
}

/** useCopy copies a text, and confirms it for a moment. */
export function useCopy(text: string): [copied: boolean, copy: () => void] {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 2_000);
    } catch {
      // Without a secure origin there is no clipboard; the text can be marked by hand.
    }
  };
  return [copied, () => void copy()];
}

/** ManifestView shows a manifest as YAML. */
export function ManifestView({ manifest, label }: { manifest: Uint8Array; label: string }) {
  const text = useMemo(() => manifestText(manifest), [manifest]);
  const lines = useMemo(() => text.trimEnd().split("\n"), [text]);
  const [all, setAll] = useState(false);
  const [copied, copy] = useCopy(text);
  const shown = all ? lines : lines.slice(0, shownLines);
  return (
    <section className="codeblock" aria-label={label}>
      <div className="codebar">
        <span className="spread muted">{lines.length === 1 ? "1 line" : `${lines.length} lines`}</span>
        {lines.length > shown.length && (
          <Button small onPress={() => setAll(true)}>
            Show all
          </Button>
        )}
        <Button small onPress={copy} aria-label={`Copy: ${label}`}>
          {copied ? "Copied" : "Copy"}
        </Button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard. */}
      <pre tabIndex={0}>
        <code>
          {shown.map((line, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a line has nothing but its place.
            <YAMLLine key={at} line={line} />
          ))}
        </code>
      </pre>
    </section>
  );
}

const field = /^(\s*(?:- )*)("(?:[^"\\]|\\.)*"|[^\s"#:][^:]*)(:)(\s.*|)$/;

function YAMLLine({ line }: { line: string }) {
  const parts = field.exec(line);
  if (!parts) return <span className="codeline">{`${line}\n`}</span>;
  return (
    <span className="codeline">
      {parts[1]}
      <span className="codekey">{`${parts[2]}:`}</span>
      {`${parts[4]}\n`}
    </span>
  );
}
