import type { ReactNode } from "react";

function Icon({ children, size = 16 }: { children: ReactNode; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {children}
    </svg>
  );
}

export const CheckIcon = () => (
  <Icon size={12}>
    <path d="m3 8.5 3.2 3.2L13 4.8" />
  </Icon>
);
export const ChevronIcon = () => (
  <Icon>
    <path d="m4 6 4 4 4-4" />
  </Icon>
);
export const CloseIcon = () => (
  <Icon>
    <path d="m4 4 8 8m0-8-8 8" />
  </Icon>
);
export const MoreIcon = () => (
  <Icon>
    <path d="M3 8h.01M8 8h.01M13 8h.01" />
  </Icon>
);
export const MenuIcon = () => (
  <Icon>
    <path d="M2.5 4.5h11m-11 3.5h11m-11 3.5h11" />
  </Icon>
);
export const RuntimeIcon = () => (
  <Icon>
    <path d="M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.5 5 8 8.2 13.5 5M8 8.2v6" />
  </Icon>
);
export const AppIcon = () => (
  <Icon>
    <path d="M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z" />
  </Icon>
);
export const PromotionIcon = () => (
  <Icon>
    <path d="m2.5 4 4 4-4 4M8.5 4l4 4-4 4" />
  </Icon>
);
export const TrafficIcon = () => (
  <Icon>
    <path d="M1.5 8h3l2-5 3 10 2-5h3" />
  </Icon>
);
export const HistoryIcon = () => (
  <Icon>
    <path d="M2.6 6.2A5.8 5.8 0 1 1 2.4 9.4M2.4 2.6v3.7h3.7M8 5v3.2l2.2 1.6" />
  </Icon>
);
export const SettingsIcon = () => (
  <Icon>
    <path d="M3 4.5h6m3 0h1M3 11.5h1m3 0h6" />
    <circle cx="10.5" cy="4.5" r="1.5" />
    <circle cx="5.5" cy="11.5" r="1.5" />
  </Icon>
);
export const ThemeIcon = () => (
  <Icon>
    <circle cx="8" cy="8" r="5.5" />
    <path d="M8 2.5v11a5.5 5.5 0 0 0 0-11" fill="currentColor" />
  </Icon>
);
