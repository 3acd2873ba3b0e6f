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

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/secret"
)

const (
	// credentialFilePause is how often the file is read: a Secret that is mounted
	// changes without an event.
	credentialFilePause = 10 * time.Second
	// maxCredentialFile bounds it.
	maxCredentialFile = 64 << 10
)

// FileCredential is a credential for repositories whose password or token is in a
// file: that of a Secret that the agent has no right to read by the API.
type FileCredential struct {
	// URL is what the addresses of the repositories begin with.
	URL      string
	Username string
	// File has the password or token.
	File string
}

// fileCredentialName sorts behind every Secret: one for the same addresses wins.
func fileCredentialName() types.NamespacedName {
	return types.NamespacedName{Namespace: "~", Name: "sources.credentials"}
}

// followCredentialFile takes the credential of the file, again when it changes,
// until the context is done. The function is called after the first look.
func (a *agent) followCredentialFile(ctx context.Context, looked func()) {
	tick := time.NewTicker(credentialFilePause)
	defer tick.Stop()
	var last secret.Text
	told := ""
	for {
		password, err := readCredentialFile(a.options.Credential.File)
		switch {
		case err != nil && err.Error() != told:
			told = err.Error()
			a.log.Error("the credential for repositories cannot be read; it is tried again", observe.KeyError, err)
		case err == nil && password.Reveal() != last.Reveal():
			last, told = password, ""
			a.takeCredentialFile(password)
		}
		looked()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (a *agent) takeCredentialFile(password secret.Text) {
	given := a.options.Credential
	a.book.Set(fileCredentialName(), credential.Credential{
		Scope: credential.Prefix, Kind: credential.Git, URL: given.URL, Username: given.Username, Password: password,
	})
	a.leading.credentialsChanged()
}

// readCredentialFile reads a password. The error names the file and none of its
// content.
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
