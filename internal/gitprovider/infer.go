package gitprovider

import (
	"net/url"
	"slices"
	"strings"
)

// cloud is a provider's public service.
type cloud struct {
	kind  Kind
	api   string
	web   string
	hosts []string // of web and SSH
}

// clouds returns the public services with their API and SSH hosts.
func clouds() []cloud {
	return []cloud{
		{GitHub, "https://api.github.com", "https://github.com", []string{"github.com", "www.github.com", "ssh.github.com"}},
		{GitLab, "https://gitlab.com/api/v4", "https://gitlab.com", []string{"gitlab.com", "www.gitlab.com", "altssh.gitlab.com"}},
		{Bitbucket, "https://api.bitbucket.org/2.0", "https://bitbucket.org", []string{"bitbucket.org", "www.bitbucket.org", "altssh.bitbucket.org"}},
	}
}

// tenantOfGHE returns the tenant of a *.ghe.com host: GitHub Enterprise Cloud
// with data residency, whose API is api.<tenant>.ghe.com.
func tenantOfGHE(host string) (string, bool) {
	tenant, found := strings.CutSuffix(host, ".ghe.com")
	return tenant, found && tenant != "" && !strings.Contains(tenant, ".")
}

// Infer returns provider and API URL of a repository URL (R58), without any
// request. For a self-hosted server it evaluates the host's name and
// Bitbucket Server's /scm/ path. If ok is false, the user chooses.
//
// The API is always on the repository's own host, or on the one that belongs
// to a cloud: a URL cannot send a token elsewhere.
func Infer(repoURL string) (kind Kind, apiURL string, ok bool) {
	// An invalid URL is not an error here: the API reports it.
	address, err := ParseAddress(repoURL)
	if err != nil {
		return "", "", false
	}
	// Hosts of clouds are compared exactly: a host such as
	// github.com.example.org is self-hosted.
	for _, c := range clouds() {
		if slices.Contains(c.hosts, address.Host) {
			return c.kind, c.api, true
		}
	}
	if _, found := tenantOfGHE(address.Host); found {
		return GitHub, "https://api." + address.Host, true
	}
	kind = kindByName(address)
	if kind == "" {
		return "", "", false
	}
	server := address.server()
	// A base path before /scm/ belongs to the API URL as well.
	if kind == BitbucketServer {
		if context, _, _, err := address.projectAndSlug(); err == nil && context != "" {
			server += "/" + context
		}
	}
	apiURL, err = DefaultAPI(kind, server)
	return kind, apiURL, err == nil
}

// kindByName infers the provider from the first label of a self-hosted host.
func kindByName(address Address) Kind {
	if _, _, _, err := address.projectAndSlug(); err == nil && slices.Contains(address.Segments, "scm") && !address.SSH {
		return BitbucketServer
	}
	// Only the first label is evaluated: the domain belongs to the company
	// and may contain anything.
	label, _, _ := strings.Cut(address.Host, ".")
	for part := range strings.SplitSeq(label, "-") {
		switch part {
		case "github", "ghe":
			return GitHub
		case "gitlab":
			return GitLab
		case "bitbucket", "stash":
			return BitbucketServer
		}
	}
	return ""
}

// DefaultAPI returns the API URL of a server (R59): <server>/api/v3 for
// GitHub Enterprise, <server>/api/v4 for GitLab, and <server> itself for
// Bitbucket Server and for servers without an API. Without a server it is the cloud's. An API URL is
// accepted too and returned unchanged.
func DefaultAPI(kind Kind, server string) (string, error) {
	if server == "" {
		for _, c := range clouds() {
			if c.kind == kind {
				return c.api, nil
			}
		}
		return "", invalid(kind, "%s has no cloud: give the server's URL, such as https://bitbucket.example.com", kind.Title())
	}
	// Users often give a bare host.
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	base, err := url.Parse(server)
	if err != nil || (base.Scheme != "https" && base.Scheme != "http") || !properHost(strings.ToLower(base.Hostname())) ||
		base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return "", invalid(kind, "the Git server's URL must be as https://git.example.com, without user and query")
	}
	host := strings.ToLower(base.Hostname())
	for _, c := range clouds() {
		if c.kind == kind && (slices.Contains(c.hosts, host) || strings.HasPrefix(c.api, "https://"+host)) {
			return c.api, nil
		}
	}
	// The path is kept: self-hosted servers may have a base path.
	base.Host = strings.ToLower(base.Host)
	base.Path = strings.TrimRight(base.Path, "/")
	switch kind {
	case GitHub:
		if _, found := tenantOfGHE(host); found {
			return "https://api." + host, nil
		}
		if tenant, found := strings.CutPrefix(host, "api."); found {
			if _, isTenant := tenantOfGHE(tenant); isTenant {
				return "https://" + host, nil
			}
		}
		base.Path = strings.TrimSuffix(base.Path, "/api/v3") + "/api/v3"
	case GitLab:
		base.Path = strings.TrimSuffix(base.Path, "/api/v4") + "/api/v4"
	// REST paths are appended by the client, so a given one is removed.
	case BitbucketServer:
		if i := strings.Index(base.Path, "/rest/"); i >= 0 {
			base.Path = base.Path[:i]
		}
		base.Path = strings.TrimSuffix(base.Path, "/rest")
	// There is no API: the server itself decides which repositories the token
	// is for.
	case PlainGit:
	case Bitbucket:
		return "", invalid(kind, "Bitbucket Cloud is at bitbucket.org only: for a self-hosted server use bitbucket-server")
	default:
		return "", invalid(kind, "%q is not a Git provider: use %s", kind, kindWords)
	}
	return base.String(), nil
}

// webServer returns the base URL of the web pages of an API, for the OAuth
// flow and for links.
func webServer(kind Kind, apiURL string) string {
	for _, c := range clouds() {
		if c.kind == kind && c.api == apiURL {
			return c.web
		}
	}
	if host, found := strings.CutPrefix(apiURL, "https://api."); found && kind == GitHub {
		if _, isTenant := tenantOfGHE(host); isTenant {
			return "https://" + host
		}
	}
	// The web pages are at the root of the installation.
	for _, suffix := range []string{"/api/v3", "/api/v4", "/2.0"} {
		apiURL = strings.TrimSuffix(apiURL, suffix)
	}
	return apiURL
}

// OnServer rejects a repository that is not on the server of an API: a token
// for the API must not be sent there.
func OnServer(kind Kind, apiURL, repoURL string) error {
	address, err := ParseAddress(repoURL)
	if err != nil {
		return err
	}
	return sameHost(kind, apiURL, address)
}

// sameHost rejects a repository on another server than the API's: its path
// would name another repository there. The SSH host of a self-hosted server
// may have any name.
func sameHost(kind Kind, apiURL string, address Address) error {
	// The API URL was validated by newClient; the check is defensive.
	api, err := url.Parse(apiURL)
	if err != nil {
		return invalid(kind, "the API URL cannot be read")
	}
	for _, c := range clouds() {
		if c.kind != kind || c.api != apiURL {
			continue
		}
		if slices.Contains(c.hosts, address.Host) {
			return nil
		}
		return invalid(kind, "the repository is at %s, and the token is for %s", address.Host, c.web)
	}
	host := strings.ToLower(api.Hostname())
	if address.SSH || address.Host == host || "api."+address.Host == host {
		return nil
	}
	return invalid(kind, "the repository is at %s, and the API URL is at %s: set the API URL of the repository's server", address.Host, host)
}
