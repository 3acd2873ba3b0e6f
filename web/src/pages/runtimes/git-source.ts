const sourceName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** sourceProblem validates a Git Source without a request. */
export function sourceProblem(source: { name: string; repoUrl: string }): string {
  if (!sourceName.test(source.name.trim())) {
    return "Enter a name of lower-case letters, digits and dashes, at most 63 characters.";
  }
  const url = source.repoUrl.trim();
  if (url === "") return "Enter the URL of the repository.";
  const known = /^(https?|ssh):\/\/[^/\s]+\/\S+$/.test(url) || /^[^/@:\s]+@[^/:\s]+:\S+$/.test(url);
  if (!known) return "Write the repository as https://github.com/acme/apps.git, or git@github.com:acme/apps.git.";
  if (/^https?:\/\/[^/]*@/.test(url))
    return "Remove the user and token from the URL: the runtime has its own credentials.";
  return "";
}

/** webAddress is the page of a repository, if it has one. */
export function webAddress(repoURL: string): string | null {
  const scp = /^[^/@:\s]+@([^/:\s]+):(.+)$/.exec(repoURL);
  const text = scp ? `https://${scp[1]}/${scp[2]}` : repoURL;
  if (!URL.canParse(text)) return null;
  const parsed = new URL(text);
  if (parsed.protocol === "ssh:") return `https://${parsed.hostname}${parsed.pathname.replace(/\.git$/, "")}`;
  if (parsed.protocol !== "https:" && parsed.protocol !== "http:") return null;
  parsed.username = "";
  parsed.password = "";
  return parsed.toString().replace(/\.git$/, "");
}
