package credential

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/secret"
)

// GitHubApp is an installation of a GitHub App. Its key signs requests for
// tokens, which open the repositories of the installation for an hour.
type GitHubApp struct {
	ID, Installation string
	Key              secret.Text
	// API is that of GitHub Enterprise; empty for that of github.com.
	API string
}

// IsZero reports whether there is none.
func (a *GitHubApp) IsZero() bool { return a.Key.IsZero() }

// app reads the fields of a GitHub App.
func (f *fields) app() GitHubApp {
	return GitHubApp{
		ID: f.text("githubAppID"), Installation: f.text("githubAppInstallationID"),
		Key: f.key("githubAppPrivateKey"), API: f.text("githubAppEnterpriseBaseUrl"),
	}
}

// ParseApp reads the GitHub App of a Secret that is not that of a repository, and has
// neither a label nor an address. It is zero if the Secret has none.
func ParseApp(s *corev1.Secret) (GitHubApp, error) {
	r := fields{secret: s}
	app := r.app()
	return app, errors.Join(r.err, app.check())
}

// UsesApp reports whether a token of the App opens the repository. As in Argo CD,
// everything else that a Secret has to log in with goes before the App.
func (c *Credential) UsesApp() bool {
	return !c.App.IsZero() && c.Username == "" && c.Password.IsZero() && c.BearerToken.IsZero() && c.SSHPrivateKey.IsZero()
}

// check validates the fields. The numbers are parts of the path of a request.
func (a *GitHubApp) check() error {
	if *a == (GitHubApp{}) {
		return nil
	}
	for _, field := range []struct{ name, value string }{{"githubAppID", a.ID}, {"githubAppInstallationID", a.Installation}} {
		if _, err := strconv.ParseUint(field.value, 10, 63); err != nil {
			return fmt.Errorf("the field %s is no number: a GitHub App needs githubAppID, githubAppInstallationID and githubAppPrivateKey", field.name)
		}
	}
	if a.Key.IsZero() {
		return errors.New("the field githubAppPrivateKey is missing: write the private key of the GitHub App")
	}
	if a.API == "" {
		return nil
	}
	at, err := address.Parse(a.API)
	if err == nil && at.Scheme != address.HTTPS {
		err = errors.New("it is not https")
	}
	if err != nil {
		return fmt.Errorf("the field githubAppEnterpriseBaseUrl: %w: write one such as https://github.example.com/api/v3", err)
	}
	return nil
}
