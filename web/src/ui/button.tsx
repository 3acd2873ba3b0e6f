import { type AnchorHTMLAttributes, forwardRef, type ReactNode } from "react";
import { Button as AriaButton } from "react-aria-components/Button";

type Variant = "primary" | "secondary" | "danger" | "ghost";

export interface ButtonProps {
  children: ReactNode;
  onPress?: () => void;
  variant?: Variant;
  small?: boolean;
  type?: "button" | "submit";
  isDisabled?: boolean;
  /** Something that the button began is not finished. */
  isPending?: boolean;
  "aria-label"?: string;
  "data-testid"?: string;
}

export function Button({ children, variant = "secondary", small, isPending, isDisabled, ...rest }: ButtonProps) {
  return (
    <AriaButton
      className={`button ${variant}${small ? " small" : ""}`}
      isDisabled={Boolean(isDisabled)}
      isPending={Boolean(isPending)}
      {...rest}
    >
      {children}
    </AriaButton>
  );
}

/** buttonClass dresses a link as a button. */
export function buttonClass(variant: Variant = "secondary", small = false): string {
  return `button ${variant}${small ? " small" : ""}`;
}

/** ExternalLink leaves the console. */
export const ExternalLink = forwardRef<HTMLAnchorElement, AnchorHTMLAttributes<HTMLAnchorElement>>(
  function ExternalLink({ children, ...rest }, ref) {
    return (
      <a ref={ref} target="_blank" rel="noreferrer noopener" {...rest}>
        {children}
      </a>
    );
  },
);
