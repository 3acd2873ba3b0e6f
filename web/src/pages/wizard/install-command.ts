// What installs a runtime, as text to copy. `slipway runtime install --print` writes
// the same texts; install-command.cases.json is checked on both sides.

export type Mode = "tunnel" | "ingress" | "http-route" | "mesh";

export interface InstallChoice {
  /** Address of the platform, without a path. */
  platformURL: string;
  accountID: string;
  name: string;
  namespace: string;
  release: string;
  mode: Mode;
  /** Of an Ingress or HTTPRoute. */
  hosts: string[];
  ingressClass: string;
  /** Of an HTTPRoute, as name or namespace/name. */
  gateway: string;
  /** Of a service mesh. */
  ingressURL: string;
  configurationRuntime: boolean;
}

interface Value {
  key: string;
  text: string;
  /** A value that is no text: true and false. */
  plain?: boolean;
}

export const defaultNamespace = "slipway";
export const defaultRelease = "slipway-runtime";
const chart = "oci://charts.slipway.dev/gitops-runtime";
const keySecret = "slipway-user-token";
const keyName = "token";

/** keyFile is where the command expects the API key. */
export const keyFile = (name: string): string => `${name}.key`;

/** shellWord is a text as one word of a shell. */
export function shellWord(text: string): string {
  if (/^[A-Za-z0-9._\-/:=@%+,]+$/.test(text)) return text;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// hcl is a text as Terraform quotes it; ${ and %{ would be templates.
function hcl(text: string): string {
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    // A function: in a text, $$ would mean one $.
    .replaceAll("${", () => "$${")
    .replaceAll("%{", "%%{")
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t");
  return `"${escaped}"`;
}

// escaped is a text as --set reads it.
const escaped = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll(",", "\\,");

/** accessValues are those of the mode. */
function accessValues(choice: InstallChoice): Value[] {
  const hosts = (key: string): Value[] => choice.hosts.map((text, at) => ({ key: `${key}[${at}]`, text }));
  switch (choice.mode) {
    case "tunnel":
      return [];
    case "ingress":
      return [
        { key: "global.runtime.ingress.enabled", text: "true", plain: true },
        ...hosts("global.runtime.ingress.hosts"),
        ...(choice.ingressClass ? [{ key: "global.runtime.ingress.className", text: choice.ingressClass }] : []),
      ];
    case "http-route": {
      const slash = choice.gateway.indexOf("/");
      const parent = "global.runtime.httpRoute.parentRefs[0]";
      const name = choice.gateway.slice(slash + 1);
      return [
        { key: "global.runtime.httpRoute.enabled", text: "true", plain: true },
        ...hosts("global.runtime.httpRoute.hostnames"),
        ...(slash >= 0 ? [{ key: `${parent}.namespace`, text: choice.gateway.slice(0, slash) }] : []),
        ...(name ? [{ key: `${parent}.name`, text: name }] : []),
      ];
    }
    case "mesh":
      return [
        ...(choice.ingressURL ? [{ key: "global.runtime.ingressUrl", text: choice.ingressURL }] : []),
        { key: "global.runtime.ingress.enabled", text: "false", plain: true },
        { key: "tunnel-client.enabled", text: "false", plain: true },
      ];
  }
}

function values(choice: InstallChoice): Value[] {
  const secret = "global.platform.userToken.secretKeyRef";
  return [
    { key: "global.platform.url", text: choice.platformURL },
    { key: `${secret}.name`, text: keySecret },
    { key: `${secret}.key`, text: keyName },
    { key: "global.runtime.name", text: choice.name },
    ...(choice.mode === "tunnel" ? [{ key: "global.platform.accountId", text: choice.accountID }] : []),
    ...accessValues(choice),
    ...(choice.configurationRuntime
      ? [{ key: "global.runtime.isConfigurationRuntime", text: "true", plain: true }]
      : []),
  ];
}

// A platform without TLS has to be permitted; the chart refuses it otherwise.
const allowHTTP = { key: "global.platform.allowHTTP", text: "true", plain: true };
const isPlain = (choice: InstallChoice): boolean => choice.platformURL.startsWith("http:");

function keyCommands(choice: InstallChoice): string[] {
  const namespace = shellWord(choice.namespace);
  return [
    `kubectl create namespace ${namespace} --dry-run=client -o yaml | kubectl apply -f -`,
    `kubectl create secret generic ${keySecret} --namespace ${namespace} --from-file=${keyName}=/dev/stdin < ${shellWord(keyFile(choice.name))}`,
  ];
}

/** helmCommand is the commands of kubectl and Helm. */
export function helmCommand(choice: InstallChoice): string {
  const all = isPlain(choice) ? [...values(choice), allowHTTP] : values(choice);
  const words = [
    `helm upgrade --install ${shellWord(choice.release)} --create-namespace --namespace ${shellWord(choice.namespace)}`,
    ...all.map(
      ({ key, text, plain }) => `  ${plain ? "--set" : "--set-string"} ${shellWord(`${key}=${escaped(text)}`)}`,
    ),
    `  ${chart} --wait`,
  ];
  return [
    "# 1. The API key goes into a Secret.",
    ...keyCommands(choice),
    "",
    "# 2. Helm installs the runtime, which joins with the key.",
    words.join(" \\\n"),
    "",
  ].join("\n");
}

/** terraformText is a helm_release. */
export function terraformText(choice: InstallChoice): string {
  const all = isPlain(choice) ? [...values(choice), allowHTTP] : values(choice);
  const cut = chart.lastIndexOf("/");
  const line = (name: string, text: string) => `  ${name.padEnd(16)} = ${hcl(text)}`;
  return [
    "# The API key goes into a Secret before terraform apply, and is in no state of Terraform:",
    ...keyCommands(choice).map((command) => `#   ${command}`),
    `resource "helm_release" ${hcl(choice.release.replaceAll("-", "_"))} {`,
    line("name", choice.release),
    line("repository", chart.slice(0, cut)),
    line("chart", chart.slice(cut + 1)),
    line("namespace", choice.namespace),
    "  create_namespace = true",
    "  set = [",
    ...all.map(
      ({ key, text, plain }) =>
        `    { name = ${hcl(key)}, value = ${hcl(escaped(text))}${plain ? "" : ', type = "string"'} },`,
    ),
    "  ]",
    "}",
    "",
  ].join("\n");
}

// places are the flags that differ from what the program takes by itself.
function places(choice: InstallChoice): string[] {
  return [
    ...(choice.namespace === defaultNamespace ? [] : ["--namespace", choice.namespace]),
    ...(choice.release === defaultRelease ? [] : ["--release", choice.release]),
  ];
}

function join(words: string[]): string {
  return words.map(shellWord).join(" ");
}

/** cliCommand is the same with our own program, which makes the key itself. */
export function cliCommand(choice: InstallChoice): string {
  const hosts = choice.hosts.flatMap((host) => ["--host", host]);
  const reached: Record<Mode, string[]> = {
    tunnel: [],
    ingress: ["--mode", "ingress", ...hosts, ...(choice.ingressClass ? ["--ingress-class", choice.ingressClass] : [])],
    "http-route": ["--mode", "http-route", ...hosts, ...(choice.gateway ? ["--gateway", choice.gateway] : [])],
    mesh: ["--mode", "mesh", ...(choice.ingressURL ? ["--ingress-url", choice.ingressURL] : [])],
  };
  const install = [
    "slipway",
    "runtime",
    "install",
    choice.name,
    "--create-key",
    ...reached[choice.mode],
    ...places(choice),
    ...(choice.configurationRuntime ? ["--configuration-runtime"] : []),
    ...(isPlain(choice) ? ["--set", `${allowHTTP.key}=true`] : []),
  ];
  return `slipway login ${shellWord(choice.platformURL)}\n${join(install)}\n`;
}

/** preflightCommand checks the cluster before anything is installed. */
export function preflightCommand(choice: InstallChoice): string {
  const hosts = choice.hosts.flatMap((host) => ["--host", host]);
  const reached: Record<Mode, string[]> = {
    tunnel: choice.accountID ? ["--account", choice.accountID] : [],
    ingress: ["--mode", "ingress", ...hosts, ...(choice.ingressClass ? ["--ingress-class", choice.ingressClass] : [])],
    "http-route": ["--mode", "http-route", ...hosts, ...(choice.gateway ? ["--gateway", choice.gateway] : [])],
    mesh: ["--mode", "mesh", ...(choice.ingressURL ? ["--ingress-url", choice.ingressURL] : [])],
  };
  const words = ["slipway", "preflight", "--runtime", choice.name, ...reached[choice.mode], ...places(choice)];
  return `${join(words)}\n`;
}
