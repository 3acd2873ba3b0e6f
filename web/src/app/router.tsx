// The addresses of the console. Each page is loaded when it is first seen.

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { warmApplications, warmRuntimes } from "../api/fleet";
import { Failure, Loading, Page } from "../ui/page";
import { queries } from "./queries";
import { sessionQuery } from "./session";
import { Shell } from "./shell";

type Search = Record<string, unknown>;
const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });

function NotFound() {
  return (
    <Page title="No such page">
      <p>
        The console has no page here. <a href="/console/">Go to the start.</a>
      </p>
    </Page>
  );
}

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: (search: Search): { next?: string | undefined } => ({ next: text(search["next"]) }),
  component: lazyRouteComponent(() => import("../pages/signin/signin"), "SignInPage"),
});

const changePassword = createRoute({
  getParentRoute: () => root,
  path: "/change-password",
  component: lazyRouteComponent(() => import("../pages/signin/password"), "ChangePasswordPage"),
});

// Everything below needs a session.
const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  component: Shell,
  beforeLoad: async ({ location, matches }) => {
    // Pages are fetched while the platform says who is signed in.
    for (const { routeId } of matches) void preload(routeId);
    const me = await queries.ensureQueryData(sessionQuery);
    if (!me) throw redirect({ to: "/sign-in", search: { next: `/console${location.href}` } });
    if (me.user?.mustChangePassword) throw redirect({ to: "/change-password" });
  },
});

function preload(routeID: keyof typeof router.routesById): Promise<void> | undefined {
  const component = router.routesById[routeID].options.component;
  return component && "preload" in component ? component.preload?.() : undefined;
}

const start = createRoute({
  getParentRoute: () => inside,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/runtimes" });
  },
});

const runtimes = createRoute({
  getParentRoute: () => inside,
  path: "/runtimes",
  validateSearch: (search: Search): { view?: string | undefined; query?: string | undefined } => ({
    view: text(search["view"]),
    query: text(search["query"]),
  }),
  loader: warmRuntimes,
  component: lazyRouteComponent(() => import("../pages/runtimes/runtimes"), "RuntimesPage"),
});

const runtime = createRoute({
  getParentRoute: () => inside,
  path: "/runtimes/$runtime",
  validateSearch: (search: Search): { tab?: string | undefined } => ({ tab: text(search["tab"]) }),
  component: lazyRouteComponent(() => import("../pages/runtimes/runtime"), "RuntimePage"),
});

const install = createRoute({
  getParentRoute: () => inside,
  path: "/install",
  validateSearch: (search: Search): { runtime?: string | undefined } => ({ runtime: text(search["runtime"]) }),
  component: lazyRouteComponent(() => import("../pages/wizard/wizard"), "WizardPage"),
});

const applications = createRoute({
  getParentRoute: () => inside,
  path: "/applications",
  validateSearch: (search: Search): ApplicationsSearch => ({
    view: text(search["view"]),
    query: text(search["query"]),
    health: text(search["health"]),
    sync: text(search["sync"]),
    runtime: text(search["runtime"]),
    cluster: text(search["cluster"]),
    namespace: text(search["namespace"]),
    label: text(search["label"]),
  }),
  loader: warmApplications,
  component: lazyRouteComponent(() => import("../pages/applications/applications"), "ApplicationsPage"),
});

export interface ApplicationsSearch {
  view?: string | undefined;
  query?: string | undefined;
  health?: string | undefined;
  sync?: string | undefined;
  runtime?: string | undefined;
  cluster?: string | undefined;
  namespace?: string | undefined;
  label?: string | undefined;
}

const application = createRoute({
  getParentRoute: () => inside,
  path: "/applications/$runtime/$namespace/$name",
  validateSearch: (search: Search): { tab?: string | undefined; resource?: string | undefined } => ({
    tab: text(search["tab"]),
    resource: text(search["resource"]),
  }),
  component: lazyRouteComponent(() => import("../pages/application/application"), "ApplicationPage"),
});

const traffic = createRoute({
  getParentRoute: () => inside,
  path: "/traffic",
  validateSearch: (search: Search): TrafficSearch => ({
    runtime: text(search["runtime"]),
    edge: text(search["edge"]),
    tab: text(search["tab"]),
    url: text(search["url"]),
    method: text(search["method"]),
    query: text(search["query"]),
    route: text(search["route"]),
  }),
  component: lazyRouteComponent(() => import("../pages/traffic/traffic"), "TrafficPage"),
});

export interface TrafficSearch {
  runtime?: string | undefined;
  edge?: string | undefined;
  tab?: string | undefined;
  /** What is explained. */
  url?: string | undefined;
  method?: string | undefined;
  query?: string | undefined;
  /** The route whose chain is shown. */
  route?: string | undefined;
}

const settings = createRoute({
  getParentRoute: () => inside,
  path: "/settings",
  validateSearch: (search: Search): { section?: string | undefined } => ({ section: text(search["section"]) }),
  component: lazyRouteComponent(() => import("../pages/settings/settings"), "SettingsPage"),
});

const oauth = createRoute({
  getParentRoute: () => inside,
  path: "/oauth/callback",
  validateSearch: (
    search: Search,
  ): { state?: string | undefined; code?: string | undefined; error?: string | undefined } => ({
    state: text(search["state"]),
    code: text(search["code"]),
    error: text(search["error"]),
  }),
  component: lazyRouteComponent(() => import("../pages/settings/oauth"), "OAuthCallbackPage"),
});

export const router = createRouter({
  basepath: "/console",
  routeTree: root.addChildren([
    signIn,
    changePassword,
    inside.addChildren([start, runtimes, runtime, install, applications, application, traffic, settings, oauth]),
  ]),
  defaultPreload: "intent",
  defaultPendingComponent: () => <Loading lines={8} />,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  scrollRestoration: true,
  // Values of a search stay as they are written.
  parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
  stringifySearch: (search) => {
    const entries = Object.entries(search).filter((entry): entry is [string, string] => typeof entry[1] === "string");
    const written = new URLSearchParams(entries).toString();
    return written === "" ? "" : `?${written}`;
  },
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
