package webhook

import (
	"net/url"
	"strings"
)

// SameRepository reports whether two addresses are of the same repository, for
// any transport: https, ssh, git, or the short form user@host:path. The user,
// the case of the host, the default port, slashes and .git at the end are
// ignored. Ports of different protocols are not compared. A text that is no
// address equals nothing.
func SameRepository(a, b string) bool {
	first, ok := parseAddress(a)
	if !ok {
		return false
	}
	second, ok := parseAddress(b)
	return ok && first.same(second)
}

// The ways to a repository that lead to the same one.
const (
	overHTTP = "http"
	overSSH  = "ssh"
	overGit  = "git"
	local    = "file"
)

// address is where a repository is.
type address struct {
	transport string // one of the above, or a scheme of its own
	host      string // lower case
	port      string // empty for the usual one
	path      string // without slashes at its ends, and without .git
}

// same compares two addresses. Ports matter only within one transport: SSH and
// HTTPS of one host have different ones.
func (a address) same(b address) bool {
	if a.host != b.host || a.path != b.path {
		return false
	}
	if a.transport == b.transport {
		return a.port == b.port
	}
	return a.isGitHost() && b.isGitHost()
}

// isGitHost reports whether hosts serve the same repositories by other ways too.
func (a address) isGitHost() bool {
	return a.transport == overHTTP || a.transport == overSSH || a.transport == overGit
}

// folded is the address in lower case, for hosts that ignore case.
func (a address) folded() address {
	a.path = strings.ToLower(a.path)
	return a
}

// parseAddress normalizes an address. ok is false for a text that is none.
func parseAddress(text string) (address, bool) {
	if !isName(text) {
		return address{}, false
	}
	if strings.HasPrefix(text, "/") {
		return finish(address{transport: local}, text)
	}
	// The path of the short form can have the text as well, behind its colon.
	if before, _, found := strings.Cut(text, "://"); found && !strings.Contains(before, ":") {
		return parseURL(text)
	}
	return parseShort(text)
}

// parseURL reads an address with a scheme.
func parseURL(text string) (address, bool) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" || parsed.Opaque != "" {
		return address{}, false
	}
	scheme := strings.ToLower(parsed.Scheme)
	a := address{transport: scheme, host: parsed.Hostname(), port: parsed.Port()}
	usual := map[string]string{"https": "443", "http": "80", "ssh": "22", "git+ssh": "22", "ssh+git": "22", "git": "9418", "oci": "443"}
	if a.port == usual[scheme] {
		a.port = ""
	}
	switch scheme {
	case "http", "https":
		a.transport = overHTTP
	case "ssh", "git+ssh", "ssh+git":
		a.transport = overSSH
	case "file":
		if a.host == "localhost" {
			a.host = ""
		}
		return finish(a, parsed.Path)
	}
	if a.host == "" {
		return address{}, false
	}
	return finish(a, parsed.Path)
}

// parseShort reads user@host:path, which ssh has.
func parseShort(text string) (address, bool) {
	authority, rest, found := strings.Cut(text, ":")
	if strings.Contains(authority, "[") {
		authority, rest, found = strings.Cut(text, "]:")
		authority = strings.Replace(authority, "[", "", 1)
	}
	if !found || strings.Contains(authority, "/") {
		return address{}, false
	}
	host := authority[strings.LastIndex(authority, "@")+1:]
	// One letter is a drive.
	if len(host) < 2 || strings.ContainsAny(host, " []") {
		return address{}, false
	}
	return finish(address{transport: overSSH, host: host}, rest)
}

// finish checks and cleans the parts that all forms have. Paths with . or ..
// are refused and not resolved: no host sends them.
func finish(a address, path string) (address, bool) {
	a.host = strings.TrimSuffix(strings.ToLower(a.host), ".")
	if a.host == "" && a.transport != local {
		return address{}, false
	}
	if a.transport == overSSH {
		a = withoutDetour(a)
	}
	var elements []string
	for element := range strings.SplitSeq(path, "/") {
		switch element {
		case "":
		case ".", "..":
			return address{}, false
		default:
			elements = append(elements, element)
		}
	}
	a.path = strings.TrimSuffix(strings.Join(elements, "/"), ".git")
	a.path = strings.TrimSuffix(a.path, "/")
	return a, a.path != "" && isName(a.path)
}

// withoutDetour maps the alternative hosts that offer ssh at the port of https
// to the main ones.
func withoutDetour(a address) address {
	switch a.host {
	case "ssh.github.com":
		a.host = "github.com"
	case "altssh.gitlab.com":
		a.host = "gitlab.com"
	case "altssh.bitbucket.org":
		a.host = "bitbucket.org"
	default:
		return a
	}
	a.port = ""
	return a
}
