// Package address has the one form of the address of a source: a Git
// repository, a Helm repository or a registry.
//
// [Parse] reads what an Application names, once: the result is what a project
// allows or forbids, what a credential is chosen by, what caches are keyed by,
// and what is dialled. Spellings that clients and servers could read in two
// ways are refused and not cleaned: percent-encoded letters, //, . and .. in a
// path, backslashes, hosts that end with a dot. Equal spellings that people do
// write are one address: the case of the host, the default port, one slash and
// .git at the end.
//
// An Address has no place for a password or a query, so that its String can be
// shown to everyone. Errors never quote the text that was refused: it may have
// a token in it.
//
// See decision 0032 in docs/decisions: One typed address and one gate for every
// source.
package address

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// The schemes of an Address.
const (
	HTTPS = "https"
	HTTP  = "http"
	SSH   = "ssh"
	// OCI is a registry, with or without oci:// in front.
	OCI = "oci"
)

// Address is where a source is. Only Parse makes one; values can be compared.
type Address struct {
	Scheme string
	// User is that of SSH, and empty for all others.
	User string
	// Host is a name in lower case or an IP address, without brackets.
	Host string
	// Port is empty for the default of the scheme.
	Port string
	// Path has no slash at its ends, and is percent-encoded in one way.
	Path string
	// Home: the path of SSH begins at the home directory of the user.
	Home bool
}

// defaultUser is the user of SSH where the address names none.
const defaultUser = "git"

// defaultPort is the port of a scheme.
func defaultPort(scheme string) string {
	switch scheme {
	case HTTP:
		return "80"
	case SSH:
		return "22"
	}
	return "443"
}

// IsZero reports whether the address was never parsed.
func (a Address) IsZero() bool { return a == Address{} }

// Canonical is the same value for all spellings of one repository. It is the
// key of caches, and what rules of a project are matched against.
func (a Address) Canonical() Address {
	if a.Scheme == SSH {
		a.User = cmp.Or(a.User, defaultUser)
	}
	a.Path = strings.TrimSuffix(a.Path, ".git")
	return a
}

// Below is the address of something in a folder of this one, such as a chart of
// a registry.
func (a Address) Below(name string) Address {
	a.Path = strings.Trim(strings.TrimSuffix(a.Path, ".git")+"/"+name, "/")
	return a
}

// MainHost replaces the host that a public provider offers for SSH at the port
// of HTTPS by its main one: both have the same repositories.
func (a Address) MainHost() Address {
	main := map[string]string{"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org"}
	if host, found := main[a.Host]; found && a.Scheme == SSH {
		a.Host, a.Port = host, ""
	}
	return a
}

// SameRepository reports whether both are one repository for any transport and
// user: hosts offer their repositories over HTTP and SSH. Ports count within one
// transport only.
func (a Address) SameRepository(b Address) bool {
	a, b = a.MainHost().Canonical(), b.MainHost().Canonical()
	if a.Path == "" || a.Host != b.Host || a.Path != b.Path {
		return false
	}
	transport := func(scheme string) string { return strings.TrimSuffix(scheme, "s") } // https is http here
	if transport(a.Scheme) == transport(b.Scheme) {
		return a.Port == b.Port
	}
	return a.Scheme != OCI && b.Scheme != OCI
}

// String is the address as it can be written and shown: it has no credentials.
func (a Address) String() string {
	if a.Scheme != SSH {
		return strings.TrimSuffix(a.Scheme+"://"+a.HostPort()+"/"+a.Path, "/")
	}
	user := cmp.Or(a.User, defaultUser)
	switch {
	case a.Home && a.Port == "" && !strings.Contains(a.Path, "@"):
		return user + "@" + a.HostPort() + ":" + a.Path
	case a.Home:
		return "ssh://" + user + "@" + a.HostPort() + "/~/" + a.Path
	}
	return strings.TrimSuffix("ssh://"+user+"@"+a.HostPort()+"/"+a.Path, "/")
}

// HostPort is the host as URLs have it: with the port if it is not the default.
func (a Address) HostPort() string {
	switch {
	case a.Port != "":
		return net.JoinHostPort(a.Host, a.Port)
	case strings.Contains(a.Host, ":"):
		return "[" + a.Host + "]"
	}
	return a.Host
}

// DialAddress is the host with its port, for a connection.
func (a Address) DialAddress() string {
	return net.JoinHostPort(a.Host, cmp.Or(a.Port, defaultPort(a.Scheme)))
}

// URL is the address for an HTTP client.
func (a Address) URL() *url.URL {
	at := &url.URL{Scheme: a.Scheme, Host: a.HostPort(), Path: "/" + a.PlainPath()}
	if at.EscapedPath() != "/"+a.Path {
		at.RawPath = "/" + a.Path
	}
	return at
}

// PlainPath is the path without percent-encoding, as servers of SSH get it. That
// of user@host:path is sent as it is written: Azure DevOps has %20 there.
func (a Address) PlainPath() string {
	plain, err := url.PathUnescape(a.Path)
	if err != nil || a.Home {
		return a.Path
	}
	return plain
}

// Redact is a text that may be an address, as it can be shown: without user,
// password, query and fragment. A proper address stays as it is written. It does
// not fail: of a text that is no address nothing is shown.
func Redact(text string) string {
	if _, err := Parse(text); err == nil || text == "" {
		return text
	}
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	a, err := ParseForeign(text)
	if err != nil {
		return "(not a valid address)"
	}
	return a.String()
}
