package credential

import (
	"strings"

	"slipway.dev/slipway/internal/gitops/source/address"
)

// covers reports whether an address is at or below that of a credential. As in
// Argo CD, the path may end in the middle of a name; the host may not.
func covers(own, wanted address.Address) bool {
	return sameHost(own, wanted) && strings.HasPrefix(strings.ToLower(wanted.Canonical().Path), strings.ToLower(own.Canonical().Path))
}

// same reports whether both are one repository. Hosts of repositories take any
// case in names, and Argo CD compares so.
func same(own, wanted address.Address) bool {
	return sameHost(own, wanted) && strings.EqualFold(own.Canonical().Path, wanted.Canonical().Path)
}

// sameHost compares scheme, host, port and, if the credential names one, the
// user.
func sameHost(own, wanted address.Address) bool {
	return own.Scheme == wanted.Scheme && own.Host == wanted.Host && own.Port == wanted.Port &&
		(own.User == "" || own.User == wanted.Canonical().User)
}
