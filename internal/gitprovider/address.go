package gitprovider

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Address is where a repository is, read from any of the spellings that people
// copy: https://host/owner/name.git, git@host:owner/name.git,
// ssh://git@host:port/owner/name.git, with /scm/ as Bitbucket Server writes it,
// and with the path and the ref of the Shared Configuration Repository
// (<repo>.git[/<path>][?ref=<branch>]), which are left out.
type Address struct {
	// SSH: not HTTP.
	SSH bool
	// Plain: http:// instead of https://.
	Plain bool
	// Host is lower case and without a port; Port is empty for the usual one.
	Host, Port string
	// Segments are the path's parts, without .git at the end and unescaped.
	Segments []string
}

const addressHint = "write an address such as https://example.com/team/app.git or git@example.com:team/app.git"

// ParseAddress reads a repository's address. User and password in it are
// dropped.
func ParseAddress(text string) (Address, error) {
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
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		name, isRepository := strings.CutSuffix(part, ".git")
		if name == "" || name == "." || name == ".." || (strings.HasPrefix(name, "-") && name != "-") || strings.ContainsFunc(name, odd) {
			return Address{}, invalid("", "the repository's address has an empty or unsafe part in its path: %s", addressHint)
		}
		address.Segments = append(address.Segments, name)
		if isRepository {
			break
		}
	}
	return address, nil
}

// odd are characters that no provider has in a name and that change what a URL
// means.
func odd(r rune) bool {
	return strings.ContainsRune(`/\?#%:@"<>|*`, r) || unicode.IsControl(r) || unicode.IsSpace(r)
}

func splitAddress(text string) (address Address, path string, err error) {
	if !strings.Contains(text, "://") {
		return splitShort(text)
	}
	parsed, err := url.Parse(text)
	// An escaped slash would be one part here and two parts at the server.
	if err != nil || parsed.Opaque != "" || parsed.Fragment != "" || strings.Contains(strings.ToLower(parsed.RawPath), "%2f") {
		return Address{}, "", invalid("", "the repository's address cannot be read: %s", addressHint)
	}
	address = Address{Host: strings.ToLower(parsed.Hostname()), Port: parsed.Port()}
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

// splitShort reads user@host:path.
func splitShort(text string) (address Address, path string, err error) {
	text, _, _ = strings.Cut(text, "?")
	before, path, found := strings.Cut(text, ":")
	host := before[strings.LastIndexByte(before, '@')+1:]
	if !found || strings.Contains(before, "/") {
		return Address{}, "", invalid("", "the repository's address cannot be read: %s", addressHint)
	}
	return Address{SSH: true, Host: strings.ToLower(host)}, path, nil
}

// properHost accepts names and addresses, and nothing that a program could take
// for an option.
func properHost(host string) bool {
	if host == "" || len(host) > 253 || strings.HasPrefix(host, "-") || strings.HasPrefix(host, ".") {
		return false
	}
	return !strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' || r == ':')
	})
}

// server is the web address of the host. Behind SSH the web server is taken to
// be on the usual port of the same host.
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

// ownerAndName splits the path for GitHub and Bitbucket Cloud, where it has two
// parts. Links of the web pages (…/tree/main) have more and are cut.
func (a Address) ownerAndName(kind Kind) (owner, name string, err error) {
	if len(a.Segments) < 2 {
		return "", "", invalid(kind, "the repository's address must have an owner and a name: %s", addressHint)
	}
	return a.Segments[0], a.Segments[1], nil
}

// groupAndName splits the path for GitLab, which has groups in groups; what
// follows /-/ is a page of its web server.
func (a Address) groupAndName() (group, name string, err error) {
	segments := a.Segments
	if i := slices.Index(segments, "-"); i > 0 {
		segments = segments[:i]
	}
	if len(segments) < 2 {
		return "", "", invalid(GitLab, "the repository's address must have a group or user and a name: %s", addressHint)
	}
	last := len(segments) - 1
	return strings.Join(segments[:last], "/"), segments[last], nil
}

// projectAndSlug splits the path for Bitbucket Server: [/context]/scm/KEY/slug,
// /KEY/slug behind SSH, or the web page's /projects/KEY/repos/slug and
// /users/name/repos/slug. A personal project is ~name. context is what stands
// before it.
func (a Address) projectAndSlug() (context, key, slug string, err error) {
	s := a.Segments
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

// projectKey is the spelling of the API: keys are upper case, clone addresses
// lower case, and personal projects keep theirs.
func projectKey(key string) string {
	if strings.HasPrefix(key, "~") {
		return key
	}
	return strings.ToUpper(key)
}

// below drops the path at which the server is installed, if the address begins
// with it.
func (a Address) below(prefix string) Address {
	parts := strings.FieldsFunc(prefix, func(r rune) bool { return r == '/' })
	if len(parts) > 0 && len(a.Segments) > len(parts) && slices.Equal(a.Segments[:len(parts)], parts) {
		a.Segments = a.Segments[len(parts):]
	}
	return a
}
