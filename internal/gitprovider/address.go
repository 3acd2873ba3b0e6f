package gitprovider

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Address is a parsed repository URL. It accepts the common spellings:
// https://host/owner/name.git, git@host:owner/name.git,
// ssh://git@host:port/owner/name.git, Bitbucket Server's /scm/ URLs, and the
// form of the Shared Configuration Repository
// (<repo>.git[/<path>][?ref=<branch>]), whose path and ref are dropped.
type Address struct {
	// SSH is set for SSH, otherwise HTTP.
	SSH bool
	// Plain is set for http:// instead of https://.
	Plain bool
	// Host is lower case and without a port; Port is empty for the default
	// port.
	Host, Port string
	// Segments are the unescaped parts of the path, without a trailing .git.
	Segments []string
}

const addressHint = "write an address such as https://example.com/team/app.git or git@example.com:team/app.git"

// ParseAddress parses a repository URL. User and password are dropped.
func ParseAddress(text string) (Address, error) {
	// The length is checked before any parsing.
	if len(text) > 2048 {
		return Address{}, invalid("", "the repository's address is longer than 2048 characters")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\\' }) {
		return Address{}, invalid("", "the repository's address has a space, a backslash or a control character in it: %s", addressHint)
	}
	address, path, err := splitAddress(text)
	if err != nil {
		return Address{}, err
	}
	if !properHost(address.Host) {
		return Address{}, invalid("", "the repository's address has no proper host: %s", addressHint)
	}
	// Everything after the segment with .git is the folder of a Shared
	// Configuration Repository.
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		name, isRepository := strings.CutSuffix(part, ".git")
		if name == "" || name == "." || name == ".." || (strings.HasPrefix(name, "-") && name != "-") || strings.ContainsFunc(name, unsafeInPath) {
			return Address{}, invalid("", "the repository's address has an empty or unsafe part in its path: %s", addressHint)
		}
		address.Segments = append(address.Segments, name)
		if isRepository {
			break
		}
	}
	return address, nil
}

// unsafeInPath reports characters that no provider allows in a name and that
// change the meaning of a URL.
func unsafeInPath(r rune) bool {
	return strings.ContainsRune(`/\?#%:@"<>|*`, r) || unicode.IsControl(r) || unicode.IsSpace(r)
}

// splitAddress parses scheme, host and port. An escaped slash is rejected: it
// is one segment here and two at the server.
func splitAddress(text string) (address Address, path string, err error) {
	if !strings.Contains(text, "://") {
		return splitShort(text)
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Opaque != "" || parsed.Fragment != "" || strings.Contains(strings.ToLower(parsed.RawPath), "%2f") {
		return Address{}, "", invalid("", "the repository's address cannot be read: %s", addressHint)
	}
	address = Address{Host: strings.ToLower(parsed.Hostname()), Port: parsed.Port()}
	// Default ports are dropped, so that equal addresses compare equal.
	usual := "443"
	switch parsed.Scheme {
	case "https":
	case "http":
		address.Plain, usual = true, "80"
	case "ssh", "git+ssh", "ssh+git":
		address.SSH, usual = true, "22"
	default:
		return Address{}, "", invalid("", "the repository's address must begin with https:// or ssh://: %s", addressHint)
	}
	if address.Port == usual {
		address.Port = ""
	}
	return address, parsed.Path, nil
}

// splitShort parses the SCP-like form user@host:path.
func splitShort(text string) (address Address, path string, err error) {
	// The query is the ref of a Shared Configuration Repository.
	text, _, _ = strings.Cut(text, "?")
	// A slash before the colon is a local path, not a host.
	before, path, found := strings.Cut(text, ":")
	host := before[strings.LastIndexByte(before, '@')+1:]
	if !found || strings.Contains(before, "/") {
		return Address{}, "", invalid("", "the repository's address cannot be read: %s", addressHint)
	}
	return Address{SSH: true, Host: strings.ToLower(host)}, path, nil
}

// properHost accepts host names and IP addresses, and nothing that a program
// could parse as an option.
func properHost(host string) bool {
	if host == "" || len(host) > 253 || strings.HasPrefix(host, "-") || strings.HasPrefix(host, ".") {
		return false
	}
	return !strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' || r == ':')
	})
}

// server returns the web URL of the host. For SSH the web server is assumed
// on the default port of the same host.
func (a Address) server() string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.Port != "" && !a.SSH {
		host += ":" + a.Port
	}
	if a.Plain {
		return "http://" + host
	}
	return "https://" + host
}

// ownerAndName splits the path for GitHub and Bitbucket Cloud, which has two
// parts. Further parts of web links (…/tree/main) are dropped.
func (a Address) ownerAndName(kind Kind) (owner, name string, err error) {
	if len(a.Segments) < 2 {
		return "", "", invalid(kind, "the repository's address must have an owner and a name: %s", addressHint)
	}
	return a.Segments[0], a.Segments[1], nil
}

// groupAndName splits the path for GitLab, which has nested groups; /-/
// starts a page of its web interface.
func (a Address) groupAndName() (group, name string, err error) {
	segments := a.Segments
	// Project names cannot be a single dash.
	if i := slices.Index(segments, "-"); i > 0 {
		segments = segments[:i]
	}
	if len(segments) < 2 {
		return "", "", invalid(GitLab, "the repository's address must have a group or user and a name: %s", addressHint)
	}
	last := len(segments) - 1
	return strings.Join(segments[:last], "/"), segments[last], nil
}

// projectAndSlug splits the path for Bitbucket Server:
// [/context]/scm/KEY/slug, /KEY/slug over SSH, or the web pages
// /projects/KEY/repos/slug and /users/name/repos/slug. A personal project is
// ~name. context is the path prefix of the installation.
func (a Address) projectAndSlug() (context, key, slug string, err error) {
	s := a.Segments
	// The marker may follow a base path of any depth.
	for i := range s {
		rest := s[i:]
		prefix := strings.Join(s[:i], "/")
		switch {
		case s[i] == "scm" && len(rest) >= 3 && !a.SSH:
			return prefix, projectKey(rest[1]), rest[2], nil
		case s[i] == "projects" && len(rest) >= 4 && rest[2] == "repos":
			return prefix, projectKey(rest[1]), rest[3], nil
		case s[i] == "users" && len(rest) >= 4 && rest[2] == "repos":
			return prefix, "~" + rest[1], rest[3], nil
		}
	}
	if len(s) == 2 {
		return "", projectKey(s[0]), s[1], nil
	}
	return "", "", "", invalid(BitbucketServer, "the repository's address must be as Bitbucket Server shows it under Clone: https://<server>/scm/<project>/<repository>.git or ssh://git@<server>:7999/<project>/<repository>.git")
}

// projectKey returns the API's spelling of a project key: upper case, while
// clone URLs have lower case. Personal projects keep their case.
func projectKey(key string) string {
	if strings.HasPrefix(key, "~") {
		return key
	}
	return strings.ToUpper(key)
}

// trimBasePath removes the base path of the server's installation, if the
// path starts with it.
func (a Address) trimBasePath(prefix string) Address {
	parts := strings.FieldsFunc(prefix, func(r rune) bool { return r == '/' })
	if len(parts) > 0 && len(a.Segments) > len(parts) && slices.Equal(a.Segments[:len(parts)], parts) {
		a.Segments = a.Segments[len(parts):]
	}
	return a
}
