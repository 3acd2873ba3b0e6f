package webhook

import "slipway.dev/slipway/internal/gitops/source/address"

// SameRepository reports whether two addresses are of the same repository, for
// any transport: https, ssh, or the short form user@host:path. The user, the
// case of the host, the default port, a slash and .git at the end are ignored.
// Ports of different protocols are not compared. A text that is no address
// equals nothing.
func SameRepository(a, b string) bool {
	first, err := address.ParseForeign(a)
	if err != nil {
		return false
	}
	second, err := address.ParseForeign(b)
	return err == nil && first.SameRepository(second)
}
