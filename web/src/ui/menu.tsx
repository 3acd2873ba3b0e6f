import type { ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import { Menu as AriaMenu, MenuItem, MenuTrigger } from "react-aria-components/Menu";
import { Popover } from "react-aria-components/Popover";
import { MoreIcon } from "./icons";

export interface MenuEntry {
  id: string;
  label: string;
  onAction: () => void;
  danger?: boolean;
  isDisabled?: boolean;
}

export interface MenuProps {
  /** The label of the button for screen readers. */
  label: string;
  /** What the button shows; three dots without it. */
  trigger?: ReactNode;
  entries: MenuEntry[];
  /** For entries that are loaded when they are needed. */
  onOpenChange?: (open: boolean) => void;
  /** Set if the button is reached in another way than by the Tab key. */
  excludeFromTabOrder?: boolean;
}

export function Menu({ label, trigger, entries, onOpenChange, excludeFromTabOrder = false }: MenuProps) {
  return (
    <MenuTrigger {...(onOpenChange && { onOpenChange })}>
      <Button className="button ghost small" aria-label={label} excludeFromTabOrder={excludeFromTabOrder}>
        {trigger ?? <MoreIcon />}
      </Button>
      <Popover className="popover" placement="bottom end">
        <AriaMenu items={entries}>
          {(entry) => (
            <MenuItem
              id={entry.id}
              className={entry.danger ? "option danger" : "option"}
              onAction={entry.onAction}
              isDisabled={Boolean(entry.isDisabled)}
            >
              {entry.label}
            </MenuItem>
          )}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  );
}
