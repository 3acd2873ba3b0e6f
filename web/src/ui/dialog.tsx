import { type ReactNode, useState } from "react";
import { Dialog as AriaDialog } from "react-aria-components/Dialog";
import { Heading } from "react-aria-components/Heading";
import { Modal, ModalOverlay } from "react-aria-components/Modal";
import { explain } from "../api/errors";
import { Button } from "./button";
import { TextField } from "./field";
import { Note } from "./page";

export interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
  /** Buttons. Without them there is one that closes. */
  footer?: ReactNode;
  wide?: boolean;
}

export function Dialog({ title, isOpen, onClose, children, footer, wide }: DialogProps) {
  return (
    <ModalOverlay className="overlay" isOpen={isOpen} onOpenChange={(open) => !open && onClose()} isDismissable>
      <Modal className={wide ? "modal wide" : "modal"}>
        <AriaDialog className="dialog">
          <Heading slot="title">{title}</Heading>
          {children}
          <div className="footer">{footer ?? <Button onPress={onClose}>Close</Button>}</div>
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

export interface ConfirmProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
  confirmLabel: string;
  danger?: boolean;
  /** What must be typed first, for what cannot be undone. */
  typed?: string;
  onConfirm: () => Promise<unknown>;
}

/** ConfirmDialog confirms an action, and shows its error. */
export function ConfirmDialog({
  title,
  isOpen,
  onClose,
  children,
  confirmLabel,
  danger,
  typed,
  onConfirm,
}: ConfirmProps) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const close = () => {
    setText("");
    setProblem("");
    onClose();
  };
  const confirm = async () => {
    setBusy(true);
    setProblem("");
    try {
      await onConfirm();
      close();
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      isOpen={isOpen}
      onClose={close}
      footer={
        <>
          <Button onPress={close}>Cancel</Button>
          <Button
            variant={danger ? "danger" : "primary"}
            onPress={confirm}
            isPending={busy}
            isDisabled={typed !== undefined && text !== typed}
          >
            {confirmLabel}
          </Button>
        </>
      }
    >
      <div className="stack">
        {children}
        {typed !== undefined && <TextField label={`Type ${typed} to go on`} value={text} onChange={setText} />}
        {problem && <Note tone="bad">{problem}</Note>}
      </div>
    </Dialog>
  );
}
