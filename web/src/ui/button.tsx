import { type AnchorHTMLAttributes, forwardRef, type ReactNode, useEffect, useRef } from "react";
import { Button as AriaButton } from "react-aria-components/Button";
import { announce } from "./announce";

type Variant = "primary" | "secondary" | "danger" | "ghost";

export interface ButtonProps {
  children: ReactNode;
  onPress?: () => void;
  variant?: Variant;
  small?: boolean;
  type?: "button" | "submit";
  isDisabled?: boolean;
  /** Set while the action of the button is running. */
  isPending?: boolean;
  "aria-label"?: string;
  "data-testid"?: string;
}

/** Button is a button. While it is pending it keeps the focus, and does nothing. */
export function Button(props: ButtonProps) {
  const {
    children,
    variant = "secondary",
    small,
    isPending = false,
    isDisabled = false,
    onPress,
    type,
    ...rest
  } = props;
  const place = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!isPending) return;
    announce(`${place.current?.ariaLabel || place.current?.textContent}: in progress`);
    return () => announce("");
  }, [isPending]);
  return (
    <AriaButton
      ref={place}
      className={`button ${variant}${small ? " small" : ""}`}
      isDisabled={isDisabled}
      // React Aria's own pending state announces the button, which may be gone by then.
      {...(isPending
        ? { "aria-disabled": true, "data-pending": true, type: "button" as const }
        : { ...(onPress && { onPress }), ...(type && { type }) })}
      {...rest}
    >
      {children}
    </AriaButton>
  );
}

/** buttonClass returns the classes of a link that looks like a button. */
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
