package remote

import (
	"net"
	"net/url"
	"strings"
)

// Address is where a repository is.
type Address struct {
	Scheme   string // https, http or ssh
	User     string
	password string
	Host     string // lower case, without a port
	Port     string // empty for the usual one
	Path     string // for SSH in the short form it may begin without a slash
}

// ParseAddress reads https://, http:// and ssh:// addresses and the short form
// user@host:path. A port that is the default of its scheme is dropped, so that
// both spellings are one repository.
func ParseAddress(text string) (Address, error) {
	const what = "write an address such as https://example.com/team/app.git or git@example.com:team/app.git"
	// A newline in an address would end up in a header or a command.
	for _, r := range text {
		if r <= ' ' || r == 0x7f {
			return Address{}, failf(Invalid, "the address has a space or a control character in it: %s", what)
		}
	}
	if !strings.Contains(text, "://") {
		return parseShort(text, what)
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" || parsed.Opaque != "" {
		return Address{}, failf(Invalid, "the address cannot be read: %s", what)
	}
	// Hosts and schemes are case-insensitive, paths are not.
	a := Address{Scheme: strings.ToLower(parsed.Scheme), Host: strings.ToLower(parsed.Hostname()), Port: parsed.Port(), Path: parsed.Path}
	a.User = parsed.User.Username()
	a.password, _ = parsed.User.Password()
	switch a.Scheme {
	case "https", "http", "ssh":
	case "git+ssh", "ssh+git":
		a.Scheme = "ssh"
	default:
		return Address{}, failf(Invalid, "addresses that begin with %s:// are not supported: %s", plainText(a.Scheme), what)
	}
	if a.Port == map[string]string{"https": "443", "http": "80", "ssh": "22"}[a.Scheme] {
		a.Port = ""
	}
	return a.checked(what)
}

// parseShort reads user@host:path, the short form of SSH. A host of one letter
// is refused, because C:path is a Windows path.
func parseShort(text, what string) (Address, error) {
	before, path, found := strings.Cut(text, ":")
	user, host, hasUser := strings.Cut(before, "@")
	if !hasUser {
		user, host = "", before
	}
	if !found || strings.Contains(before, "/") || len(host) < 2 {
		return Address{}, failf(Invalid, "the address cannot be read: %s", what)
	}
	return Address{Scheme: "ssh", User: user, Host: strings.ToLower(host), Path: path}.checked(what)
}

// checked refuses parts that start with a dash: a server or a program could
// take them for an option (CVE-2017-1000117).
func (a Address) checked(what string) (Address, error) {
	if a.Host == "" || strings.HasPrefix(a.Host, "-") || strings.HasPrefix(a.User, "-") || strings.HasPrefix(a.Path, "-") {
		return Address{}, failf(Invalid, "the address has no proper host or path: %s", what)
	}
	if strings.Trim(a.Path, "/") == "" {
		return Address{}, failf(Invalid, "the address names a host and no repository: %s", what)
	}
	return a, nil
}

// String is the address without a user and a password.
func (a Address) String() string {
	host := a.Host
	if a.Port != "" {
		host = net.JoinHostPort(a.Host, a.Port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return a.Scheme + "://" + host + "/" + strings.TrimPrefix(a.Path, "/")
}

// Key is the same for spellings of one address. Who may read is a matter of the
// credentials; the user of SSH belongs to the address, for hosts have several.
func (a Address) Key() string {
	key := a
	key.Path = strings.TrimSuffix(strings.TrimRight(a.Path, "/"), ".git")
	if a.Scheme != "ssh" {
		return key.String()
	}
	relative := ""
	if !strings.HasPrefix(a.Path, "/") {
		relative = "~/"
	}
	return a.User + "@" + relative + key.String()
}

// hostPort is what is dialled.
func (a Address) hostPort() string {
	port := a.Port
	if port == "" {
		port = map[string]string{"https": "443", "http": "80", "ssh": "22"}[a.Scheme]
	}
	return net.JoinHostPort(a.Host, port)
}

// Redact removes the user and the password of any text that may be an address.
// It is for log lines and errors, so that it must not fail: text that is no
// address loses everything before the last @ of its host.
func Redact(text string) string {
	if a, err := ParseAddress(text); err == nil {
		return a.String()
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "", text
	}
	authority, path, hasPath := strings.Cut(rest, "/")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if hasPath {
		authority += "/" + path
	}
	if found {
		authority = scheme + "://" + authority
	}
	return plainText(authority)
}
