package credential

import (
	"errors"
	"net/url"
	"strings"
)

// address is an address in the form in which credentials are compared: the case
// of the host, .git and slashes at the end do not count, and the short form
// user@host:path is that of SSH. What has no scheme is a registry.
type address struct {
	scheme, user, host, path string
}

// parseAddress normalizes an address for comparison. It accepts the three forms
// that Argo CD accepts in Secrets: URLs, user@host:path, and registries without
// a scheme.
func parseAddress(text string) (address, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		if before, path, found := strings.Cut(text, ":"); found && strings.Contains(before, "@") && !strings.Contains(before, "/") {
			text = "ssh://" + before + "/" + strings.TrimPrefix(path, "/")
		} else {
			text = "oci://" + text
		}
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Hostname() == "" {
		// The error of url.Parse has the text, which can have a password in it.
		return address{}, errors.New("it is not an address of a repository: write one such as https://example.com/team/app.git")
	}
	a := address{scheme: strings.ToLower(parsed.Scheme), host: strings.ToLower(parsed.Host)}
	if a.scheme == "ssh" {
		a.user = parsed.User.Username()
	}
	usual := map[string]string{"https": ":443", "http": ":80", "ssh": ":22", "oci": ":443"}
	a.host = strings.TrimSuffix(a.host, usual[a.scheme])
	a.path = strings.TrimSuffix(strings.Trim(parsed.Path, "/"), ".git")
	return a, nil
}

// covers reports whether the address is at or below this one. As in Argo CD,
// the path may end in the middle of a name; the host may not.
func (a address) covers(b address) bool {
	return a.sameHost(b) && strings.HasPrefix(strings.ToLower(b.path), strings.ToLower(a.path))
}

// same reports whether both are one repository. Hosts of repositories take any
// case in names, and Argo CD compares so.
func (a address) same(b address) bool {
	return a.sameHost(b) && strings.EqualFold(a.path, b.path)
}

// sameHost compares scheme, host and, if the credential names one, the user.
func (a address) sameHost(b address) bool {
	return a.scheme == b.scheme && a.host == b.host && (a.user == "" || a.user == b.user)
}
