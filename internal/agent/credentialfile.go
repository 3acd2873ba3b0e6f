package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/secret"
)

const (
	// credentialFileInterval is how often the file is read: the kubelet updates
	// a mounted Secret without an event.
	credentialFileInterval = 10 * time.Second
	// maxCredentialFile bounds the file.
	maxCredentialFile = 64 << 10
)

// FileCredential is a credential for repositories whose password or token is in
// a file, such as a mounted Secret that the agent may not read by the API.
type FileCredential struct {
	// URL is the prefix of the repositories' addresses. It may be empty for a
	// runtime of a platform, whose own credential it becomes.
	URL      string
	Username string
	// File has the password or token.
	File string
}

// fileCredentialName sorts after every Secret, so that a Secret for the same
// addresses wins.
func fileCredentialName() types.NamespacedName {
	return types.NamespacedName{Namespace: "~", Name: "sources.credentials"}
}

// watchCredentialFile loads the credential of the file, and again after each
// change, until the context is done. It calls looked after the first read,
// whether that succeeded or not: the agent works without the file. An error is
// logged once until it changes. The last credential stays in use meanwhile.
func (a *agent) watchCredentialFile(ctx context.Context, looked func()) {
	var last secret.Text
	text := ""
	for {
		password, err := readCredentialFile(a.options.Credential.File)
		switch {
		case err != nil && err.Error() != text:
			text = err.Error()
			a.log.Error("cannot read credential file; retrying", observe.KeyError, err)
		case err == nil && password.Reveal() != last.Reveal():
			last, text = password, ""
			a.updateCredentialFile(password)
		}
		looked()
		if backoff.Sleep(ctx, credentialFileInterval) != nil {
			return
		}
	}
}

// updateCredentialFile replaces the credential of the file.
func (a *agent) updateCredentialFile(password secret.Text) {
	given := a.options.Credential
	if given.URL != "" {
		a.credentials.Set(fileCredentialName(), credential.Credential{
			Scope: credential.Prefix, Kind: credential.Git, URL: given.URL, Username: given.Username, Password: password,
		})
		a.leading.credentialsChanged()
	}
	if a.runtime != nil {
		a.runtime.integrations.Install(given.Username, password)
	}
}

// readCredentialFile reads a password. The error names the file and contains
// nothing of its content.
func readCredentialFile(place string) (secret.Text, error) {
	file, err := os.Open(place)
	if errors.Is(err, os.ErrNotExist) {
		return secret.Text{}, fmt.Errorf("the file %s is not there: make the Secret that gitCredentials.password.secretKeyRef names, with its key", place)
	}
	if err != nil {
		return secret.Text{}, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxCredentialFile+1))
	if err != nil {
		return secret.Text{}, fmt.Errorf("read %s: %w", place, err)
	}
	password := strings.TrimSpace(string(text))
	if password == "" || len(text) > maxCredentialFile {
		return secret.Text{}, fmt.Errorf("the file %s is empty, or has more than %d bytes", place, maxCredentialFile)
	}
	return secret.New(password), nil
}
