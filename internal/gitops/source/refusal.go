package source

import (
	"errors"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
)

// Refusal is nothing: there are no Secrets.
func (noCredentials) Refusal(address.Address, string) string { return "" }

// explain adds to an error of an address that a Secret for it is refused: the
// server's response alone would make people add a Secret that is there already.
// A server that hides private repositories responds that there is none, so that
// NotFound counts too.
func (s *Sources) explain(err error, of project.Admitted) error {
	var failure *Error
	if !errors.As(err, &failure) || failure.Kind != Denied && failure.Kind != NotFound {
		return err
	}
	refusal := s.options.Credentials.Refusal(of.Address(), of.Project())
	if refusal == "" {
		return err
	}
	explained := *failure
	explained.Message = refusal + "; without it: " + failure.Message
	return &explained
}

var _ Credentials = (*credential.Store)(nil)
