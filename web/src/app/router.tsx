// The routes of the console. Each page is a chunk that is loaded on the first visit.

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
import {
  readApplicationsSearch,
  readHistorySearch,
  readPromotionsSearch,
  readSearch,
  readTrafficSearch,
} from "./search";
import { sessionQuery } from "./session";
import { Shell } from "./shell";

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });

function NotFound() {
  return (
    <Page title="Page not found">
      <p>
        There is no page at this URL. <a href="/console/">Go to the home page.</a>
      </p>
    </Page>
  );
}

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: readSearch("next"),
  component: lazyRouteComponent(() => import("../pages/signin/signin"), "SignInPage"),
});

const changePassword = createRoute({
  getParentRoute: () => root,
  path: "/change-password",
  component: lazyRouteComponent(() => import("../pages/signin/password"), "ChangePasswordPage"),
});

const secondFactor = createRoute({
  getParentRoute: () => root,
  path: "/second-factor",
  component: lazyRouteComponent(() => import("../pages/signin/second-factor"), "SecondFactorPage"),
});

// The layout route of all pages that need a session.
const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  component: Shell,
  beforeLoad: async ({ location, matches }) => {
    // Load the page's chunk in parallel with the session request.
    for (const { routeId } of matches) void preload(routeId);
    const me = await queries.ensureQueryData(sessionQuery);
    if (!me) throw redirect({ to: "/sign-in", search: { next: `/console${location.href}` } });
    if (me.user?.mustChangePassword) throw redirect({ to: "/change-password" });
    if (me.mustAddSecondFactor) throw redirect({ to: "/second-factor" });
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
  validateSearch: readSearch("view", "query"),
  loader: warmRuntimes,
  component: lazyRouteComponent(() => import("../pages/runtimes/runtimes"), "RuntimesPage"),
});

const runtime = createRoute({
  getParentRoute: () => inside,
  path: "/runtimes/$runtime",
  validateSearch: readSearch("tab"),
  component: lazyRouteComponent(() => import("../pages/runtimes/runtime"), "RuntimePage"),
});

const install = createRoute({
  getParentRoute: () => inside,
  path: "/install",
  validateSearch: readSearch("runtime"),
  component: lazyRouteComponent(() => import("../pages/wizard/wizard"), "WizardPage"),
});

const applications = createRoute({
  getParentRoute: () => inside,
  path: "/applications",
  validateSearch: readApplicationsSearch,
  loader: warmApplications,
  component: lazyRouteComponent(() => import("../pages/applications/applications"), "ApplicationsPage"),
});

const application = createRoute({
  getParentRoute: () => inside,
  path: "/applications/$runtime/$namespace/$name",
  validateSearch: readSearch("tab", "resource"),
  component: lazyRouteComponent(() => import("../pages/application/application"), "ApplicationPage"),
});

// Addresses of Argo CD's console, with and without the namespace.
const argoLink = lazyRouteComponent(() => import("../pages/applications/argolinkpage"), "ArgoLinkPage");
const argoLinked = createRoute({
  getParentRoute: () => inside,
  path: "/applications/$namespace/$name",
  validateSearch: readSearch("node", "resource"),
  loader: warmApplications,
  component: argoLink,
});
const argoNamed = createRoute({
  getParentRoute: () => inside,
  path: "/applications/$name",
  validateSearch: readSearch("node", "resource"),
  loader: warmApplications,
  component: argoLink,
});

const traffic = createRoute({
  getParentRoute: () => inside,
  path: "/traffic",
  validateSearch: readTrafficSearch,
  component: lazyRouteComponent(() => import("../pages/traffic/traffic"), "TrafficPage"),
});

const promotions = createRoute({
  getParentRoute: () => inside,
  path: "/promotions",
  validateSearch: readPromotionsSearch,
  component: lazyRouteComponent(() => import("../pages/promotions/promotions"), "PromotionsPage"),
});

const history = createRoute({
  getParentRoute: () => inside,
  path: "/history",
  validateSearch: readHistorySearch,
  component: lazyRouteComponent(() => import("../pages/history/history"), "HistoryPage"),
});

const settings = createRoute({
  getParentRoute: () => inside,
  path: "/settings",
  validateSearch: readSearch("section"),
  component: lazyRouteComponent(() => import("../pages/settings/settings"), "SettingsPage"),
});

const oauth = createRoute({
  getParentRoute: () => inside,
  path: "/oauth/callback",
  validateSearch: readSearch("state", "code", "error"),
  component: lazyRouteComponent(() => import("../pages/settings/oauth"), "OAuthCallbackPage"),
});

export const router = createRouter({
  basepath: "/console",
  routeTree: root.addChildren([
    signIn,
    changePassword,
    secondFactor,
    inside.addChildren([
      start,
      runtimes,
      runtime,
      install,
      applications,
      application,
      argoLinked,
      argoNamed,
      promotions,
      traffic,
      history,
      settings,
      oauth,
    ]),
  ]),
  defaultPreload: "intent",
  defaultPendingComponent: () => <Loading lines={8} />,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  scrollRestoration: true,
  // Query values stay plain strings; the router's default would write and parse JSON.
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
