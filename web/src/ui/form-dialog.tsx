// A form in a dialog, which stays open and shows the error of a failed submit.

import { type FormEvent, type ReactNode, useState } from "react";
import { explain } from "../api/errors";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { Note } from "./page";

export interface FormDialogProps {
  title: string;
  submitLabel: string;
  onClose: () => void;
  /** The validation error of the form; it is shown on submit. */
  problem?: string;
  /** The dialog closes after a successful submit, unless the result is "stay". */
  onSubmit: () => Promise<unknown>;
  children: ReactNode;
}

export function FormDialog({ title, submitLabel, onClose, problem, onSubmit, children }: FormDialogProps) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const submit = async () => {
    if (busy) return;
    if (problem) {
      setFailure(problem);
      return;
    }
    setBusy(true);
    setFailure("");
    try {
      if ((await onSubmit()) !== "stay") onClose();
    } catch (error) {
      setFailure(explain(error));
    } finally {
      setBusy(false);
    }
  };
  const onForm = (event: FormEvent) => {
    event.preventDefault();
    void submit();
  };
  return (
    <Dialog
      title={title}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button variant="primary" onPress={() => void submit()} isPending={busy}>
            {submitLabel}
          </Button>
        </>
      }
    >
      <form className="stack" onSubmit={onForm} noValidate>
        {children}
        {failure && <Note tone="bad">{failure}</Note>}
        {/* So that Enter submits. */}
        <button type="submit" hidden />
      </form>
    </Dialog>
  );
}
