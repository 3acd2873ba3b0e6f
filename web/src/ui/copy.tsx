import { useState } from "react";
import { Button } from "./button";

/** CopyBlock is text to take along: a command, a key, a manifest. */
export function CopyBlock({ text, label }: { text: string; label: string }) {
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
  return (
    <section className="copyblock" aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard. */}
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
      <Button small onPress={copy} aria-label={`Copy: ${label}`}>
        {copied ? "Copied" : "Copy"}
      </Button>
    </section>
  );
}
