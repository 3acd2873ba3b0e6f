// The frame of every page: navigation, the user, and the state of the
// connection.

import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { reconnect, useConnection } from "../api/live";
import { platform } from "../api/transport";
import { Button } from "../ui/button";
import {
  AppIcon,
  HistoryIcon,
  MenuIcon,
  PromotionIcon,
  RuntimeIcon,
  SettingsIcon,
  ThemeIcon,
  TrafficIcon,
} from "../ui/icons";
import { Menu } from "../ui/menu";
import { toastError } from "../ui/toast";
import { forgetSession, useSession } from "./session";
import "./shell.css";
import { nextTheme } from "./theme";

const places = [
  { to: "/runtimes", label: "Runtimes", Icon: RuntimeIcon },
  { to: "/applications", label: "Applications", Icon: AppIcon },
  { to: "/promotions", label: "Promotions", Icon: PromotionIcon },
  { to: "/traffic", label: "Traffic", Icon: TrafficIcon },
  { to: "/history", label: "History", Icon: HistoryIcon },
  { to: "/settings", label: "Settings", Icon: SettingsIcon },
] as const;

export function Shell() {
  const session = useSession();
  const navigate = useNavigate();
  const [open, setOpen] = useState(false);
  const signOut = async () => {
    try {
      await platform.auth.signOut({});
      forgetSession();
      await navigate({ to: "/sign-in" });
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <aside className={open ? "side open" : "side"}>
        <div className="brand">
          <img src="/console/icon.svg" alt="" width="26" height="26" />
          <strong>Slipway</strong>
          <span className="spread" />
          <span className="narrow-only">
            <Button
              variant="ghost"
              small
              onPress={() => setOpen(!open)}
              aria-label={open ? "Close the menu" : "Open the menu"}
            >
              <MenuIcon />
            </Button>
          </span>
        </div>
        <nav aria-label="Main">
          {places.map(({ to, label, Icon }) => (
            <Link
              key={to}
              to={to}
              className="place"
              activeProps={{ "aria-current": "page" }}
              onClick={() => setOpen(false)}
            >
              <Icon /> {label}
            </Link>
          ))}
        </nav>
        <div className="who">
          <div className="account" title={session.accountID}>
            <div>{session.name}</div>
            <div className="muted">{session.accountName}</div>
          </div>
          <Menu
            label="Your account"
            entries={[
              { id: "theme", label: "Change the theme", onAction: nextTheme },
              {
                id: "password",
                label: "Change the password",
                onAction: () => void navigate({ to: "/change-password" }),
              },
              { id: "out", label: "Sign out", onAction: () => void signOut() },
            ]}
          />
          <Button variant="ghost" small onPress={nextTheme} aria-label="Change the theme">
            <ThemeIcon />
          </Button>
        </div>
      </aside>
      <div className="content">
        <ConnectionBanner />
        <Outlet />
      </div>
    </div>
  );
}

function ConnectionBanner() {
  const state = useConnection();
  return (
    <div className="connection" role="status" data-state={state}>
      {state === "lost" && (
        <div className="lost">
          <span className="spread">
            The connection to the platform is lost. The data shown may be stale. Reconnecting…
          </span>
          <Button small onPress={reconnect}>
            Try now
          </Button>
        </div>
      )}
    </div>
  );
}
