// A secret that is shown once: masked until it is revealed.

import { useState } from "react";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Note } from "../../ui/page";
import { toast } from "../../ui/toast";

export interface OnceProps {
  title: string;
  /** What the secret is: "password", "key". */
  what: string;
  secret: string;
  /** What to do with it. */
  children: string;
  onClose: () => void;
}

/** OnceDialog hands a secret over. It is closed by its button alone, because it does not come again. */
export function OnceDialog({ title, what, secret, children, onClose }: OnceProps) {
  const [shown, setShown] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(secret);
      toast(`The ${what} is in the clipboard.`);
    } catch {
      // Without a secure origin there is no clipboard: it has to be marked by hand.
      setShown(true);
    }
  };
  return (
    <Dialog
      title={title}
      isOpen
      onClose={() => {}}
      footer={
        <Button variant="primary" onPress={onClose}>
          I have it
        </Button>
      }
    >
      <div className="stack">
        <p>{children}</p>
        <div className="secret">
          <code className="secret-text" data-testid="secret">
            {shown ? secret : "•".repeat(24)}
          </code>
          <Button small onPress={() => setShown(!shown)} aria-label={shown ? `Hide the ${what}` : `Show the ${what}`}>
            {shown ? "Hide" : "Show"}
          </Button>
          <Button small onPress={() => void copy()} aria-label={`Copy the ${what}`}>
            Copy
          </Button>
        </div>
        <Note tone="warn">It is shown only once. The platform stores only a hash of it.</Note>
      </div>
    </Dialog>
  );
}
