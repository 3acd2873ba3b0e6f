// The input of the wizard. It survives a reload, without secrets.

import { defaultNamespace, defaultRelease, type InstallChoice, type Mode } from "./install-command";

export interface Draft {
  name: string;
  namespace: string;
  release: string;
  mode: Mode;
  host: string;
  ingressClass: string;
  gateway: string;
  ingressURL: string;
  sharedRepository: string;
  provider: string;
  apiURL: string;
  tool: string;
}

export const emptyDraft: Draft = {
  name: "slipway",
  namespace: defaultNamespace,
  release: defaultRelease,
  mode: "tunnel",
  host: "",
  ingressClass: "",
  gateway: "",
  ingressURL: "",
  sharedRepository: "",
  provider: "",
  apiURL: "",
  tool: "helm",
};

const modes: readonly string[] = ["tunnel", "ingress", "http-route", "mesh"];

/** readDraft is what was stored; what it does not understand is left out. */
export function readDraft(text: string | null): Draft {
  const draft = { ...emptyDraft };
  if (!text) return draft;
  let stored: unknown;
  try {
    stored = JSON.parse(text);
  } catch {
    return draft;
  }
  if (typeof stored !== "object" || stored === null) return draft;
  const found = stored as Record<string, unknown>;
  const known = Object.entries(draft).map(([key, value]) => {
    const kept = found[key];
    const usable = typeof kept === "string" && kept.length < 4_000 && (key !== "mode" || modes.includes(kept));
    return [key, usable ? kept : value] as const;
  });
  return { ...draft, ...Object.fromEntries(known) };
}

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const runtimeName = /^[a-z]([-a-z0-9]{0,36}[a-z0-9])?$/;

/** nameProblem validates the name of a runtime, without a request. */
export function nameProblem(name: string): string {
  if (name === "") return "Enter a name for the runtime.";
  if (runtimeName.test(name)) return "";
  if (name.length > 38) return "At most 38 characters: it is part of the tunnel's host name.";
  return "Lower-case letters, digits and dashes; it begins with a letter and does not end with a dash.";
}

/** labelProblem is what is wrong with a namespace or a release. */
export function labelProblem(what: string, text: string): string {
  if (text === "") return `Give the ${what} a name.`;
  return label.test(text) ? "" : "Lower-case letters, digits and dashes, at most 63 characters.";
}

const hostName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

function hostProblem(text: string): string {
  if (text === "") return "Enter the host that resolves to the cluster.";
  if (text.includes("://")) return "Enter the host without https://.";
  const bare = text.replace(/:\d{1,5}$/, "");
  return hostName.test(bare) || /^\[[0-9a-f:.]+\]$/i.test(bare) ? "" : "A host name, such as prod.example.com.";
}

function urlProblem(text: string): string {
  if (text === "") return "Enter the URL at which the mesh serves the runtime.";
  const parsed = URL.canParse(text) ? new URL(text) : null;
  if (!parsed || (parsed.protocol !== "https:" && parsed.protocol !== "http:")) {
    return "A URL, such as https://prod.example.com.";
  }
  return parsed.username || parsed.password || parsed.search || parsed.hash
    ? "Remove the user, query (?) and fragment (#)."
    : "";
}

/** accessProblems is what is wrong with the fields of the chosen mode. */
export function accessProblems(draft: Draft): { host?: string; ingressClass?: string; gateway?: string; url?: string } {
  switch (draft.mode) {
    case "tunnel":
      return {};
    case "mesh":
      return { url: urlProblem(draft.ingressURL) };
    case "ingress":
      return {
        host: hostProblem(draft.host),
        ingressClass: draft.ingressClass === "" ? "Enter the IngressClass of the controller." : "",
      };
    case "http-route":
      return {
        host: hostProblem(draft.host),
        gateway: /^[-a-z0-9.]+(\/[-a-z0-9.]+)?$/.test(draft.gateway) ? "" : "A Gateway, as name or namespace/name.",
      };
  }
}

/** isComplete is true when the command can be written. */
export function isComplete(draft: Draft): boolean {
  const wrong = [
    nameProblem(draft.name),
    labelProblem("namespace", draft.namespace),
    labelProblem("release", draft.release),
    ...Object.values(accessProblems(draft)),
  ];
  return wrong.every((problem) => problem === "");
}

/** installChoice is what the draft installs. */
export function installChoice(draft: Draft, platformURL: string, accountID: string): InstallChoice {
  return {
    platformURL,
    accountID,
    name: draft.name,
    namespace: draft.namespace,
    release: draft.release,
    mode: draft.mode,
    hosts: draft.mode === "ingress" || draft.mode === "http-route" ? [draft.host] : [],
    ingressClass: draft.ingressClass,
    gateway: draft.gateway,
    ingressURL: draft.ingressURL,
    configurationRuntime: false,
  };
}

/** repositoryProblem is what is wrong with the URL of the Shared Configuration Repository. */
export function repositoryProblem(text: string): string {
  if (text === "") return "Enter the URL of the repository.";
  if (/[\s\\#]/.test(text)) return "Remove blanks, backslashes and #.";
  const [location = "", query, ...more] = text.split("?");
  if (more.length > 0 || (query !== undefined && !/^ref=[^&]+$/.test(query))) {
    return "After the ? only ref=<branch> is possible.";
  }
  const ssh = /^[^/@:]+@[^/:]+:[^/].*$/.test(location);
  if (!ssh && !/^(https?|ssh):\/\/[^/]+\/.+/.test(location)) {
    return "Write <repository>.git, such as https://github.com/acme/config.git.";
  }
  if (/^https?:\/\/[^/]*@/.test(location)) return "Remove the user and token: the platform never stores tokens.";
  return "";
}

const clouds: Record<string, [provider: string, api: string]> = {
  "github.com": ["github", "https://api.github.com"],
  "gitlab.com": ["gitlab", "https://gitlab.com/api/v4"],
  "bitbucket.org": ["bitbucket", "https://api.bitbucket.org/2.0"],
};

/** inferProvider guesses the provider from the repository, as the platform does when none is given. */
export function inferProvider(repository: string): { provider: string; apiURL: string } {
  const host = (/^(?:\w+:\/\/)?(?:[^/@]+@)?([^/:?]+)/.exec(repository)?.[1] ?? "").toLowerCase();
  const cloud = clouds[host];
  if (cloud) return { provider: cloud[0], apiURL: cloud[1] };
  const words = (host.split(".")[0] ?? "").split("-");
  const server = `https://${host}`;
  if (words.includes("github") || words.includes("ghe")) return { provider: "github", apiURL: `${server}/api/v3` };
  if (words.includes("gitlab")) return { provider: "gitlab", apiURL: `${server}/api/v4` };
  if (words.includes("bitbucket") || words.includes("stash")) return { provider: "bitbucket-server", apiURL: server };
  return { provider: "", apiURL: "" };
}
