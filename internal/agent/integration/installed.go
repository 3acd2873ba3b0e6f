package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// installedCredential is the credential that the runtime was installed with,
// and why it is not that of the runtime; nil if it is, or not yet tried.
type installedCredential struct {
	username string
	token    secret.Text
	problem  error
}

// Install passes the credential that the runtime was installed with, and each
// change of it. Run makes it the runtime's, as if an admin had set it.
func (s *Service) Install(username string, token secret.Text) {
	s.mu.Lock()
	s.installed = installedCredential{username: username, token: token}
	s.mu.Unlock()
	s.Wake()
}

// Wake makes Run check the credentials now: the account's settings changed.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // one signal is enough
	}
}

// InstalledProblem returns why the credential that the runtime was installed
// with is not used; nil if it is, or if there is none.
func (s *Service) InstalledProblem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installed.problem
}

// adoptInstalled makes the installed credential that of the runtime. It does so
// once for each token: one that an admin sets later stays, and when the account
// names another Git server the token is not sent there. A failure is retried by
// the next call and logged once.
func (s *Service) adoptInstalled(ctx context.Context) {
	s.mu.Lock()
	given := s.installed
	s.mu.Unlock()
	// The account may get its Git provider long after the installation.
	if given.token.IsZero() || s.settings().GetProvider() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := s.adopt(ctx, given)
	if err != nil {
		if coded, ok := errors.AsType[*connect.Error](err); ok {
			err = coded.Unwrap() // the code is for clients of the API
		}
		err = fmt.Errorf("the Git credentials of the values (global.runtime.gitCredentials) are not used: %w", err)
		if given.problem == nil || given.problem.Error() != err.Error() {
			s.logProblem(ctx, "cannot use Git credentials of the installation; retrying", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Another token may have been installed meanwhile.
	if s.installed.token.Reveal() == given.token.Reveal() {
		s.installed.problem = err
	}
}

// adopt checks and stores an installed credential, unless it was stored before.
func (s *Service) adopt(ctx context.Context, given installedCredential) error {
	hash := sha256.Sum256([]byte(given.username + "\x00" + given.token.Reveal()))
	mark := hex.EncodeToString(hash[:])
	c, err := s.loadRuntime(ctx)
	if err != nil || c != nil && c.installed == mark {
		return err
	}
	c, err = s.merge(ctx, &runtimev1.SetRuntimeCredentialsRequest{Token: given.token.Reveal(), Username: given.username})
	if err != nil {
		return err
	}
	c.installed = mark
	return s.checkAndStore(ctx, c, false)
}
