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
}

export function Menu({ label, trigger, entries }: MenuProps) {
  return (
    <MenuTrigger>
      <Button className="button ghost small" aria-label={label}>
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
