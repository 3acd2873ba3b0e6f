package remote

import "slipway.dev/slipway/internal/gitops/source/address"

// ParseAddress reads the address of a Git repository. The error is a *Failure.
func ParseAddress(text string) (address.Address, error) {
	parsed, err := address.ParseGit(text)
	if err != nil {
		return address.Address{}, failf(Invalid, "%v", err)
	}
	return parsed, nil
}
